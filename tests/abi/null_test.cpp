// NULL where something is needed, for every function that takes a pointer.
// SPDX-License-Identifier: Apache-2.0
#include "tests/abi/support.h"

namespace quern::test {
namespace {

struct Null {
  std::string_view function;
  std::string_view named;  // what the text must name
  std::function<std::int32_t(quern_error*)> call;
};

TEST(Null, IsRefusedByName) {
  const Folder folder;
  const Context context = make_context(folder, kDLCPU);
  quern_context* const c = context.get();
  const auto options = sized<quern_warm_options>();
  quern_list* list = nullptr;
  std::uint64_t number = 5;
  auto attention = sized<quern_attention_args>();
  auto merge = sized<quern_merge_state_args>();
  auto tuning = sized<quern_tune_options>();
  auto info = sized<quern_device_info>();
  auto stats = sized<quern_stats>();
  auto cache_stats = sized<quern_cache_stats>();
  char key_text[65] = "";
  auto kernel_info = sized<quern_kernel_info>();
  auto launch = sized<quern_launch>();
  const ScaleDesc scale;
  quern_kernel* kernel = nullptr;
  ASSERT_EQ(quern_kernel_prepare(c, &scale.desc, &kernel, nullptr), QUERN_OK);

  using E = quern_error*;
  const Null cases[] = {
      {"device", "context is NULL", [&](E e) { return quern_device(nullptr, &info, e); }},
      {"device", "quern_device_info is NULL", [&](E e) { return quern_device(c, nullptr, e); }},
      {"get_stats", "context is NULL", [&](E e) { return quern_get_stats(nullptr, &stats, e); }},
      {"get_stats", "quern_stats is NULL", [&](E e) { return quern_get_stats(c, nullptr, e); }},
      {"warm", "context is NULL", [&](E e) { return quern_warm(nullptr, &options, &list, e); }},
      {"warm", "quern_warm_options is NULL", [&](E e) { return quern_warm(c, nullptr, &list, e); }},
      {"tune", "context is NULL", [&](E e) { return quern_tune(nullptr, &tuning, &list, e); }},
      {"tune", "quern_tune_options is NULL", [&](E e) { return quern_tune(c, nullptr, &list, e); }},
      {"load", "context is NULL", [&](E e) { return quern_load(nullptr, &options, &list, e); }},
      {"load", "quern_warm_options is NULL", [&](E e) { return quern_load(c, nullptr, &list, e); }},
      {"unload", "context is NULL", [&](E e) { return quern_unload(nullptr, nullptr, nullptr, e); }},
      {"wait", "context is NULL", [&](E e) { return quern_wait(nullptr, 0, e); }},
      {"cancel", "context is NULL", [&](E e) { return quern_cancel(nullptr, &number, e); }},
      {"failures", "context is NULL", [&](E e) { return quern_failures(nullptr, &list, e); }},
      {"failures", "findings is NULL", [&](E e) { return quern_failures(c, nullptr, e); }},
      {"manifest", "context is NULL", [&](E e) { return quern_manifest(nullptr, nullptr, &number, e); }},
      {"manifest", "length is NULL", [&](E e) { return quern_manifest(c, nullptr, nullptr, e); }},
      {"cache_list", "context is NULL", [&](E e) { return quern_cache_list(nullptr, "", &list, e); }},
      {"cache_list", "entries is NULL", [&](E e) { return quern_cache_list(c, "", nullptr, e); }},
      {"cache_inspect", "context is NULL", [&](E e) { return quern_cache_inspect(nullptr, "abcd", &list, e); }},
      {"cache_inspect", "entry is NULL", [&](E e) { return quern_cache_inspect(c, "abcd", nullptr, e); }},
      {"cache_verify", "context is NULL", [&](E e) { return quern_cache_verify(nullptr, &list, e); }},
      {"cache_trim", "context is NULL", [&](E e) { return quern_cache_trim(nullptr, nullptr, nullptr, e); }},
      {"cache_export", "context is NULL", [&](E e) { return quern_cache_export(nullptr, "/x", "", &number, e); }},
      {"cache_import", "context is NULL", [&](E e) { return quern_cache_import(nullptr, "/x", &number, e); }},
      {"keys_make", "secret_key is NULL", [&](E e) { return quern_keys_make(nullptr, key_text, e); }},
      {"keys_make", "public_key is NULL", [&](E e) { return quern_keys_make(key_text, nullptr, e); }},
      {"keys_public", "secret_key is NULL", [&](E e) { return quern_keys_public(nullptr, key_text, e); }},
      {"bundle_sign", "path is NULL", [&](E e) { return quern_bundle_sign(nullptr, "", e); }},
      {"bundle_sign", "secret_key is NULL", [&](E e) { return quern_bundle_sign("/x", nullptr, e); }},
      {"cache_get_stats", "context is NULL", [&](E e) { return quern_cache_get_stats(nullptr, &cache_stats, e); }},
      {"cache_get_stats", "quern_cache_stats is NULL", [&](E e) { return quern_cache_get_stats(c, nullptr, e); }},
      {"doctor", "context is NULL", [&](E e) { return quern_doctor(nullptr, &list, e); }},
      {"doctor", "findings is NULL", [&](E e) { return quern_doctor(c, nullptr, e); }},
      {"attention_workspace", "context is NULL",
       [&](E e) { return quern_attention_workspace(nullptr, &attention, &number, e); }},
      {"attention_workspace", "quern_attention_args is NULL",
       [&](E e) { return quern_attention_workspace(c, nullptr, &number, e); }},
      {"attention_workspace", "bytes is NULL",
       [&](E e) { return quern_attention_workspace(c, &attention, nullptr, e); }},
      {"attention_prepare", "context is NULL", [&](E e) { return quern_attention_prepare(nullptr, &attention, e); }},
      {"attention_prepare", "quern_attention_args is NULL",
       [&](E e) { return quern_attention_prepare(c, nullptr, e); }},
      {"attention", "context is NULL", [&](E e) { return quern_attention(nullptr, &attention, e); }},
      {"attention", "quern_attention_args is NULL", [&](E e) { return quern_attention(c, nullptr, e); }},
      {"merge_state_workspace", "quern_merge_state_args is NULL",
       [&](E e) { return quern_merge_state_workspace(c, nullptr, &number, e); }},
      {"merge_state_workspace", "context is NULL",
       [&](E e) { return quern_merge_state_workspace(nullptr, &merge, &number, e); }},
      {"merge_state_workspace", "bytes is NULL",
       [&](E e) { return quern_merge_state_workspace(c, &merge, nullptr, e); }},
      {"merge_state_prepare", "context is NULL", [&](E e) { return quern_merge_state_prepare(nullptr, &merge, e); }},
      {"merge_state_prepare", "quern_merge_state_args is NULL",
       [&](E e) { return quern_merge_state_prepare(c, nullptr, e); }},
      {"merge_state", "context is NULL", [&](E e) { return quern_merge_state(nullptr, &merge, e); }},
      {"merge_state", "quern_merge_state_args is NULL", [&](E e) { return quern_merge_state(c, nullptr, e); }},
      {"kernel_prepare", "context is NULL",
       [&](E e) { return quern_kernel_prepare(nullptr, &scale.desc, &kernel, e); }},
      {"kernel_prepare", "quern_kernel_desc is NULL",
       [&](E e) { return quern_kernel_prepare(c, nullptr, &kernel, e); }},
      {"kernel_get_info", "kernel is NULL", [&](E e) { return quern_kernel_get_info(nullptr, &kernel_info, e); }},
      {"kernel_get_info", "quern_kernel_info is NULL", [&](E e) { return quern_kernel_get_info(kernel, nullptr, e); }},
      {"kernel_launch", "context is NULL", [&](E e) { return quern_kernel_launch(nullptr, kernel, &launch, e); }},
      {"kernel_launch", "kernel is NULL", [&](E e) { return quern_kernel_launch(c, nullptr, &launch, e); }},
      {"kernel_launch", "quern_launch is NULL", [&](E e) { return quern_kernel_launch(c, kernel, nullptr, e); }},
  };
  for (const Null& null : cases) {
    SCOPED_TRACE(null.function);
    expect_refused(QUERN_INVALID, {null.named}, null.call);
  }
  EXPECT_EQ(list, nullptr);
  EXPECT_EQ(number, 5U);
  quern_context_destroy(nullptr);
}

TEST(Sizes, OfEveryInputAndOutputAreChecked) {
  const Folder folder;
  const Context context = make_context(folder, kDLCPU);
  quern_context* const c = context.get();
  // Each call is given a struct whose size is not set.
  quern_attention_args attention{};
  quern_merge_state_args merge{};
  quern_device_info info{};
  quern_stats stats{};
  quern_cache_stats cache_stats{};
  quern_trim_options trim{};
  quern_trim_result trimmed{};
  quern_kernel_desc desc{};
  quern_kernel_info kernel_info{};
  std::uint64_t number = 0;
  const ScaleDesc scale;
  quern_kernel* kernel = nullptr;
  ASSERT_EQ(quern_kernel_prepare(c, &scale.desc, &kernel, nullptr), QUERN_OK);
  using E = quern_error*;
  const Null cases[] = {
      {"attention_workspace", "quern_attention_args.size is 0",
       [&](E e) { return quern_attention_workspace(c, &attention, &number, e); }},
      {"attention_prepare", "quern_attention_args.size is 0",
       [&](E e) { return quern_attention_prepare(c, &attention, e); }},
      {"attention", "quern_attention_args.size is 0", [&](E e) { return quern_attention(c, &attention, e); }},
      {"merge_state_workspace", "quern_merge_state_args.size is 0",
       [&](E e) { return quern_merge_state_workspace(c, &merge, &number, e); }},
      {"merge_state_prepare", "quern_merge_state_args.size is 0",
       [&](E e) { return quern_merge_state_prepare(c, &merge, e); }},
      {"merge_state", "quern_merge_state_args.size is 0", [&](E e) { return quern_merge_state(c, &merge, e); }},
      {"device", "quern_device_info.size is 0", [&](E e) { return quern_device(c, &info, e); }},
      {"get_stats", "quern_stats.size is 0", [&](E e) { return quern_get_stats(c, &stats, e); }},
      {"cache_get_stats", "quern_cache_stats.size is 0",
       [&](E e) { return quern_cache_get_stats(c, &cache_stats, e); }},
      {"cache_trim", "quern_trim_options.size is 0", [&](E e) { return quern_cache_trim(c, &trim, nullptr, e); }},
      {"cache_trim", "quern_trim_result.size is 0", [&](E e) { return quern_cache_trim(c, nullptr, &trimmed, e); }},
      {"kernel_prepare", "quern_kernel_desc.size is 0",
       [&](E e) { return quern_kernel_prepare(c, &desc, nullptr, e); }},
      {"kernel_get_info", "quern_kernel_info.size is 0",
       [&](E e) { return quern_kernel_get_info(kernel, &kernel_info, e); }},
  };
  for (const Null& wrong : cases) {
    SCOPED_TRACE(wrong.function);
    expect_refused(QUERN_INVALID, {wrong.named, "sizeof("}, wrong.call);
  }
}

}  // namespace
}  // namespace quern::test
