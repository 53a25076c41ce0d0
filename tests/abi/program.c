/* quern from plain C99: the whole way from a kernel's text to its numbers, with nothing but the header.
 * SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "quern.h"

typedef struct {
  const float *a;
  float *out;
  int32_t n;
} params;

static const char source_text[] =
    "#include \"quern/kernel.cuh\"\n"
    "struct Params { const float* a; float* out; int n; };\n"
    "QUERN_KERNEL(square, 32, 1, QUERN_PARAM Params p) {\n"
    "  const int i = q::block_index(0) * 32 + q::thread_index();\n"
    "  if (i < p.n) p.out[i] = p.a[i] * p.a[i] + OFFSET;\n"
    "}\n";

static int events = 0;
static void on_event(void *user, const quern_event *event) {
  (void)user;
  printf("  %s %s %s: %s\n", event->op, event->target, event->key, event->text);
  ++events;
}

static int check(int32_t status, const quern_error *error) {
  if (status == QUERN_OK) return 1;
  fprintf(stderr, "%s: %s\n", quern_status_name(status), error->text);
  return 0;
}

static int square(quern_context *context, quern_error *error) {
  enum { N = 100 };
  float a[N];
  float out[N];
  for (int i = 0; i < N; ++i) a[i] = (float)i;

  const quern_source source = {sizeof source, 0, "square.cuh", source_text, 0};
  const quern_constant offset = {sizeof offset, 0, "OFFSET", "0.25f"};
  quern_kernel_desc desc;
  memset(&desc, 0, sizeof desc);
  desc.size = sizeof desc;
  desc.entry = "square";
  desc.source = &source;
  desc.constants = &offset;
  desc.constant_count = 1;
  quern_kernel *kernel = NULL;
  if (!check(quern_kernel_prepare(context, &desc, &kernel, error), error)) return 0;

  params values = {a, out, N};
  void *args[1];
  args[0] = &values;
  quern_launch launch;
  memset(&launch, 0, sizeof launch);
  launch.size = sizeof launch;
  launch.grid_x = (N + 31) / 32;
  launch.block_x = 32;
  launch.args = args;
  launch.arg_count = 1;
  if (!check(quern_kernel_launch(context, kernel, &launch, error), error)) return 0;
  for (int i = 0; i < N; ++i) {
    if (out[i] != a[i] * a[i] + 0.25f) {
      fprintf(stderr, "element %d is %g\n", i, (double)out[i]);
      return 0;
    }
  }
  return 1;
}

int main(void) {
  printf("quern %s, ABI %u\n", quern_version(), (unsigned)quern_abi_version());
  quern_error error;
  memset(&error, 0, sizeof error);
  error.size = sizeof error;

  quern_context_options options;
  memset(&options, 0, sizeof options);
  options.size = sizeof options;
  options.device_type = kDLCPU;
  options.flags = QUERN_CONTEXT_NO_CACHE;
  options.event = on_event;
  quern_context *context = NULL;
  if (!check(quern_context_create(&options, &context, &error), &error)) return 1;

  const int right = square(context, &error);
  quern_stats stats;
  memset(&stats, 0, sizeof stats);
  stats.size = sizeof stats;
  if (!check(quern_get_stats(context, &stats, &error), &error)) return 1;
  quern_context_destroy(context);
  return right && stats.compiled == 1 && events >= 1 ? 0 : 1;
}
