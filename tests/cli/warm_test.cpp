// `quern warm`: kernels of a manifest, for several targets, with good and bad lines.
// SPDX-License-Identifier: Apache-2.0
#include <sys/stat.h>

#include <chrono>

#include "tests/cli/command.h"

namespace quern::cli_tests {
namespace {

constexpr const char* kCuda = "extern \"C\" __global__ void twice(float* x) { x[threadIdx.x] *= 2 * SCALE; }\n";

class WarmTest : public CommandTest {};

TEST_F(WarmTest, CompilesOnce) {
  const std::string manifest = host_kernels(3);
  const Json cold = quern_json({"warm", manifest, "--jobs", "2"});
  EXPECT_EQ(cold["code"], 0) << cold;
  EXPECT_EQ(cold["counts"]["compiled"], 3);
  EXPECT_EQ(cold["list_only"], false);
  const Json again = quern_json({"warm", manifest});
  EXPECT_EQ(again["code"], 0);
  EXPECT_EQ(again["counts"]["compiled"], 0);
  EXPECT_EQ(again["counts"]["cached"], 3);
  ASSERT_EQ(cold["kernels"].size(), 3U);
  for (std::size_t i = 0; i < 3; ++i) {
    const Json& kernel = cold["kernels"][i];
    EXPECT_EQ(kernel["outcome"], "compiled");
    EXPECT_EQ(kernel["status"], "QUERN_OK");
    EXPECT_EQ(kernel["op"], "kernel");
    EXPECT_EQ(kernel["target"], "host");
    EXPECT_EQ(kernel["line"], i + 2);
    EXPECT_EQ(kernel["key"].get<std::string>().size(), 32U);
    EXPECT_GT(kernel["milliseconds"].get<double>(), 0);
    EXPECT_TRUE(has(kernel["spec"].get<std::string>(), "define.FACTOR=" + std::to_string(i) + ".5f"));
    EXPECT_EQ(again["kernels"][i]["key"], kernel["key"]);
    EXPECT_EQ(again["kernels"][i]["outcome"], "cached");
  }
}

TEST_F(WarmTest, ForPeople) {
  const std::string manifest = host_kernels(2);
  const Finished cold = quern({"warm", manifest});
  EXPECT_EQ(cold.code, 0) << cold.err;
  EXPECT_TRUE(has(cold.out, "TARGET  KERNELS  COMPILED  CACHED  FAILED"));
  EXPECT_TRUE(has(cold.out, "host          2         2       0       0"));
  EXPECT_TRUE(has(cold.err, "2 kernels, 2 compiled, in "));
  EXPECT_EQ(occurrences(cold.err, "\n"), 1) << "lines a kernel without --verbose: " << cold.err;

  const Finished verbose = quern({"warm", manifest, "--verbose"});
  EXPECT_TRUE(has(verbose.err, "[2/2] cached kernel host "));
  EXPECT_EQ(occurrences(verbose.out, "\ncached"), 2) << verbose.out;

  const Finished quiet = quern({"warm", manifest, "--quiet"});
  EXPECT_EQ(quiet.err, "");
  EXPECT_TRUE(has(quiet.out, "host          2         0       2       0"));
}

TEST_F(WarmTest, CompilesForAGpuThatIsNotHere) {
  write("twice.cu", kCuda);
  const std::string manifest =
      write("gpu.manifest",
            "kernel sm_90a entry=twice source=@twice.cu define.SCALE=3 option=-lineinfo option=--use_fast_math\n");
  const Json warmed = quern_json({"warm", manifest});
  EXPECT_EQ(warmed["code"], 0) << warmed;
  ASSERT_EQ(warmed["counts"]["compiled"], 1);
  const std::string cubin = folder() / "twice.cubin";
  const Json entry = quern_json({"inspect", warmed["kernels"][0]["key"], "--extract", cubin})["entry"];
  EXPECT_EQ(entry["target"], "sm_90a");
  EXPECT_EQ(entry["entry_name"], "twice");
  EXPECT_GT(entry["registers"].get<int>(), 0);
  EXPECT_TRUE(has(entry["compiler"].get<std::string>(), "nvrtc "));
  EXPECT_TRUE(has(entry["text"].get<std::string>(),
                  "const SCALE 3\noption -lineinfo\noption --use_fast_math\nsource twice.cu "));
  EXPECT_EQ(read(cubin).substr(0, 4),
            "\x7f"
            "ELF");
}

TEST_F(WarmTest, EveryTargetOfTheCall) {
  host_kernels(0);
  const std::string manifest =
      write("all.manifest", "kernel * entry=scale source=@scale.cu header=@factor.cuh define.FACTOR=2\n");
  for (const auto& targets :
       {std::vector<std::string>{"--target", "host,host64"}, {"--target", "host", "--target", "host64"}}) {
    std::vector<std::string> arguments = {"warm", manifest};
    arguments.insert(arguments.end(), targets.begin(), targets.end());
    const Json warmed = quern_json(arguments);
    EXPECT_EQ(warmed["code"], 0) << warmed;
    EXPECT_EQ(warmed["targets"], Json::array({"host", "host64"}));
    ASSERT_EQ(warmed["kernels"].size(), 2U);
    EXPECT_NE(warmed["kernels"][0]["key"], warmed["kernels"][1]["key"]);
  }
}

TEST_F(WarmTest, WithoutATargetAndADevice) {
  Invocation nowhere = invocation({"warm", write("all.manifest", "kernel * entry=e source=@e.cu\n")});
  // No device, whatever machine this runs on.
  nowhere.environment["CUDA_VISIBLE_DEVICES"] = "-1";
  nowhere.environment["HIP_VISIBLE_DEVICES"] = "-1";
  const Finished finished = run(nowhere);
  EXPECT_EQ(finished.code, 2);
  EXPECT_TRUE(has(finished.err, "--target: none given"));
  EXPECT_TRUE(has(finished.err, "--target sm_90a"));
}

TEST_F(WarmTest, ListOnlyCompilesNothing) {
  const std::string manifest = host_kernels(2);
  for (const char* option : {"--list-only", "--dry-run"}) {
    const Json listed = quern_json({"warm", manifest, option});
    EXPECT_EQ(listed["code"], 0);
    EXPECT_EQ(listed["list_only"], true);
    EXPECT_EQ(listed["counts"]["absent"], 2);
  }
  EXPECT_FALSE(std::filesystem::exists(folder() / "quern")) << "looking made a cache";
  quern({"warm", host_kernels(1)});
  const Finished listed = quern({"warm", host_kernels(2), "--list-only"});
  EXPECT_EQ(occurrences(listed.out, "\ncached"), 1) << listed.out;
  EXPECT_EQ(occurrences(listed.out, "\nabsent"), 1) << listed.out;
}

TEST_F(WarmTest, BadLinesAreNamedAndTheGoodOnesWarmed) {
  host_kernels(0);
  const std::string good = "kernel host entry=scale source=@scale.cu header=@factor.cuh define.FACTOR=";
  const std::string manifest = write("mixed.manifest",
                                     "# a comment\n"  // 1
                                     "\n" +           // 2
                                         good +
                                         "1\n" +                                          // 3
                                         "grind host A=1\n"                               // 4
                                         "kernel host entry=scale source=@missing.cu\n"   // 5
                                         "kernel vax entry=scale source=@scale.cu\n"      // 6
                                         "kernel host entry=scale source=@\n"             // 7
                                         "kernel host entry=scale source=@broken.cu\n" +  // 8
                                         good +
                                         "2");  // 9
  write("broken.cu", "this is no kernel\n");
  const Finished finished = quern({"warm", manifest});
  EXPECT_EQ(finished.code, 1);
  EXPECT_TRUE(has(finished.err, manifest + ":4: unknown op \"grind\""));
  EXPECT_TRUE(has(finished.err, manifest + ":5: cannot read "));
  EXPECT_TRUE(has(finished.err, "missing.cu': No such file or directory"));
  EXPECT_TRUE(has(finished.err, manifest + ":6: "));
  EXPECT_TRUE(has(finished.err, "vax"));
  EXPECT_TRUE(has(finished.err, manifest + ":7: source: '@' given"));
  EXPECT_TRUE(has(finished.err, manifest + ":8: "));
  EXPECT_TRUE(has(finished.err, "broken.cu:1"));
  EXPECT_TRUE(has(finished.err, "5 of 7 kernels failed"));

  const Json again = quern_json({"warm", manifest});
  EXPECT_EQ(again["code"], 1);
  EXPECT_EQ(again["error"]["status"], "QUERN_PARTIAL");
  EXPECT_EQ(again["counts"]["cached"], 2);
  EXPECT_EQ(again["counts"]["failed"], 5);
  std::vector<int> lines;
  for (const Json& kernel : again["kernels"]) {
    lines.push_back(kernel["line"]);
    EXPECT_EQ(kernel["outcome"] == "failed", kernel["status"] != "QUERN_OK") << kernel;
    EXPECT_EQ(kernel["outcome"] == "failed", !kernel["text"].get<std::string>().empty()) << kernel;
  }
  EXPECT_EQ(lines, (std::vector<int>{3, 4, 5, 6, 7, 8, 9}));
}

TEST_F(WarmTest, ManifestFromStandardInput) {
  host_kernels(0);
  const std::string text = "kernel host entry=scale source=@scale.cu header=@factor.cuh define.FACTOR=4\nbad\n";
  const Json json = quern_json({"warm", "-"}, text);
  EXPECT_EQ(json["code"], 1);
  EXPECT_EQ(json["counts"]["compiled"], 1);
  EXPECT_TRUE(has(quern({"warm", "-"}, text).err, "-:2: unknown op \"bad\""));
}

TEST_F(WarmTest, FilesAreRelativeToTheManifest) {
  write("deep/src/my kernel.cu",
        "#include \"quern/kernel.cuh\"\n#include \"value.h\"\nstruct P { float *x; };\n"
        "QUERN_KERNEL(fill, 32, 1, QUERN_PARAM P p) { p.x[q::thread_index()] = VALUE; }\n");
  write("deep/inc/v.h", "#define VALUE 7\n");
  const std::string manifest =
      write("deep/m", "kernel host entry=fill source=@src/my%20kernel.cu header.value.h=@inc/v.h\r\n");
  const Json warmed = quern_json({"warm", manifest});
  ASSERT_EQ(warmed["code"], 0) << warmed;
  const std::string text = quern_json({"inspect", warmed["kernels"][0]["key"]})["entry"]["text"];
  EXPECT_TRUE(has(text, "source src/my kernel.cu "));
  EXPECT_TRUE(has(text, "header value.h "));
  EXPECT_FALSE(has(text, folder().string())) << "a path of this machine is in the key";

  // The same by an absolute path, under its last part.
  write("deep/m", "kernel host entry=fill source=@" + (folder() / "deep/src/my%20kernel.cu").string() +
                      " header.value.h=@inc/v.h\n");
  const Json absolute = quern_json({"warm", manifest});
  ASSERT_EQ(absolute["code"], 0) << absolute;
  EXPECT_TRUE(has(quern_json({"inspect", absolute["kernels"][0]["key"]})["entry"]["text"].get<std::string>(),
                  "source my kernel.cu "));
}

// A manifest from somebody else must not show, in a log or a key's text, what lies elsewhere.
TEST_F(WarmTest, FilesOutsideOfTheManifestsFolderAreAskedFor) {
  write("secret.cu", "#error \"the secret\"\n");
  write("m/inside.cu", "#error \"inside\"\n");
  std::filesystem::create_symlink(folder() / "secret.cu", folder() / "m/link.cu");
  std::filesystem::create_symlink(folder() / "m/inside.cu", folder() / "m/fine.cu");
  const std::string absolute = (folder() / "secret.cu").string();
  for (const std::string& path : {std::string("../secret.cu"), absolute, std::string("link.cu"),
                                  std::string("../m/../secret.cu"), std::string("../not_there.cu")}) {
    const std::string manifest = write("m/m", "kernel host entry=e source=@" + path + "\n");
    const Finished refused = quern({"warm", manifest});
    EXPECT_EQ(refused.code, 1) << path;
    EXPECT_TRUE(has(refused.err, "outside of the manifest's folder")) << refused.err;
    EXPECT_FALSE(has(refused.err, "the secret")) << refused.err;
    if (path == "../not_there.cu") continue;
    const Finished allowed = quern({"warm", manifest, "--any-path"});
    EXPECT_TRUE(has(allowed.err + allowed.out, "the secret")) << allowed.err;
  }
  for (const char* path : {"inside.cu", "./inside.cu", "fine.cu", "../m/inside.cu"}) {
    const std::string manifest = write("m/m", std::string("kernel host entry=e source=@") + path + "\n");
    EXPECT_TRUE(has(quern({"warm", manifest}).err, "inside")) << path;
  }
  // A pipe that nobody writes to does not hold anybody up; in the working folder, too, what is missing is said to be.
  ASSERT_EQ(mkfifo((folder() / "m/pipe.cu").c_str(), 0600), 0);
  const std::string pipe = write("m/m", "kernel host entry=e source=@pipe.cu\n");
  EXPECT_TRUE(has(quern({"warm", pipe}).err, "is no regular file")) << "a pipe";
  write("beside", "kernel host entry=e source=@not_there.cu\n");
  const Finished missing = quern({"warm", "beside"});
  EXPECT_TRUE(has(missing.err, "cannot read") && has(missing.err, "not_there.cu")) << missing.err;
}

TEST_F(WarmTest, AConfigThatIsNoneCostsLittle) {
  // By size, by depth (valid JSON, which a parser that recurses dies of), and with many members.
  const std::string deep = write("deep.json", std::string(1 << 20, '[') + std::string(1 << 20, ']'));
  const std::string large = write("large.json", std::string(8 << 20, '['));
  std::string members = "{\"model_type\": \"llama\"";
  for (int i = 0; members.size() < (3 << 20); ++i) members += ",\"" + std::to_string(i) + "\":0";
  const std::string many = write("many.json", members + "}");
  const auto start = std::chrono::steady_clock::now();
  const Finished by_depth = quern({"warm", "--config", deep, "--target", "sm_90a"});
  EXPECT_EQ(by_depth.code, 1) << by_depth.err;
  EXPECT_TRUE(has(by_depth.err, "nested more than 200 levels deep at byte 201")) << by_depth.err;
  const Finished by_size = quern({"warm", "--config", large, "--target", "sm_90a"});
  EXPECT_NE(by_size.code, 0);
  EXPECT_TRUE(has(by_size.err, "larger than 4")) << by_size.err;
  EXPECT_NE(quern({"warm", "--config", many, "--target", "sm_90a"}).code, 0) << "nothing says how many heads";
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(20));
}

TEST_F(WarmTest, AModelForAGpuThatIsNotHere) {
  const std::string config = std::string(QUERN_CLI_CONFIGS) + "/llama-3-8b.json";
  const std::vector<std::string> arguments = {"warm", "--config", config, "--target", "sm_90a"};
  const Json cold = quern_json(arguments);
  EXPECT_EQ(cold["code"], 0) << cold;
  const std::size_t kernels = cold["kernels"].size();
  EXPECT_GT(kernels, 0U);
  EXPECT_EQ(cold["counts"]["compiled"], kernels);
  for (const Json& kernel : cold["kernels"]) EXPECT_EQ(kernel["line"], 0) << kernel;
  const Json again = quern_json(arguments);
  EXPECT_EQ(again["code"], 0) << again;
  EXPECT_EQ(again["counts"]["cached"], kernels);
  EXPECT_EQ(again["counts"]["compiled"], 0);
  EXPECT_EQ(quern_json({"list", "sm_90a"})["entries"].size(), kernels);
}

TEST_F(WarmTest, NothingIsCompiledWhereNothingCouldBeKept) {
  const std::filesystem::path cache = folder() / "frozen";
  ASSERT_EQ(quern({"warm", host_kernels(1), "--cache", cache}).code, 0);
  std::filesystem::permissions(cache, std::filesystem::perms::others_write, std::filesystem::perm_options::add);
  const Json refused = quern_json({"warm", host_kernels(2), "--cache", cache});
  EXPECT_EQ(refused["code"], 1);
  EXPECT_TRUE(has(refused["error"]["text"].get<std::string>(), "nothing was compiled"));
  EXPECT_TRUE(has(refused["error"]["text"].get<std::string>(), "--cache"));
  EXPECT_FALSE(refused.contains("kernels"));
}

TEST_F(WarmTest, AnInterruptSaysWhatIsKept) {
  Invocation interrupted = invocation({});
  const std::string config = std::string(QUERN_CLI_CONFIGS) + "/llama-3-8b.json";
  interrupted.arguments = {"timeout",  "-s",   "INT",      "1.5",    QUERN_CLI_BINARY, "warm",
                           "--config", config, "--target", "sm_90a", "--jobs",         "1"};
  const Finished finished = run(interrupted);
  EXPECT_EQ(finished.code, 124) << "the limit of timeout was reached: " << finished.err;
  EXPECT_TRUE(has(finished.err, "quern: stopped: "));
  EXPECT_TRUE(has(finished.err, " compiled now are kept in "));
  EXPECT_TRUE(has(finished.err, "cache-1.db, and the same command goes on from there\n"));
}

TEST_F(WarmTest, AlignmentOf8IsThatOf4) {
  const std::string manifest = write("m",
                                     "attention * variant=decode dtype=f16 dim_k=64 page_size=16 alignment=8\n"
                                     "moe_combine * dtype=f32 out=f32 alignment=8\n");
  const Json listed = quern_json({"warm", manifest, "--target", "sm_90a", "--list-only"});
  EXPECT_EQ(listed["code"], 0) << listed;
  for (const Json& kernel : listed["kernels"]) EXPECT_TRUE(has(kernel["spec"].get<std::string>(), "alignment=4"));
}

TEST_F(WarmTest, LongCompilerLogsAreCut) {
  std::string source;
  for (int i = 0; i < 40; ++i) source += "nonsense_" + std::to_string(i) + ";\n";
  write("broken.cu", source);
  const std::string manifest = write("m", "kernel sm_90a entry=e source=@broken.cu\n");
  const Finished brief = quern({"warm", manifest});
  EXPECT_EQ(brief.code, 1);
  EXPECT_TRUE(has(brief.err, "nonsense_0"));
  EXPECT_TRUE(has(brief.err, "... (--verbose and --json show the rest, "));
  EXPECT_FALSE(has(brief.err, "nonsense_30"));
  EXPECT_EQ(occurrences(brief.err, "refused"), 1) << "said twice";
  EXPECT_TRUE(has(quern({"warm", manifest, "--verbose"}).err, "nonsense_30"));
}

TEST_F(WarmTest, EmptyManifest) {
  const Json json = quern_json({"warm", write("empty.manifest", "")});
  EXPECT_EQ(json["code"], 0);
  EXPECT_EQ(json["kernels"], Json::array());
}

TEST_F(WarmTest, UnreadableManifest) {
  const Finished finished = quern({"warm", "nowhere.manifest"});
  EXPECT_EQ(finished.code, 1);
  EXPECT_TRUE(has(finished.err, "cannot read 'nowhere.manifest': No such file or directory"));
  EXPECT_EQ(quern_json({"warm", "nowhere.manifest"})["error"]["status"], "QUERN_NOT_FOUND");
}

TEST_F(WarmTest, UnknownTarget) {
  const Finished finished = quern({"warm", host_kernels(1), "--target", "vax"});
  EXPECT_EQ(finished.code, 2);
  EXPECT_TRUE(has(finished.err, "quern: --target: 'vax' is not a target"));
  EXPECT_TRUE(has(finished.err, "sm_90a"));
}

TEST_F(WarmTest, ACacheThatCannotBeIsSaid) {
  const std::string file = write("not-a-folder", "x");
  const Finished finished = quern({"warm", host_kernels(1), "--cache", file});
  EXPECT_TRUE(has(finished.err, "not-a-folder"));
  EXPECT_NE(finished.code, 0) << "nothing was stored, which is what warm is for";
}

}  // namespace
}  // namespace quern::cli_tests
