// The commands that look after the cache: list, inspect, verify, trim, export, import, stats, doctor; and damage.
// SPDX-License-Identifier: Apache-2.0
#include <sys/stat.h>

#include <algorithm>

#include "tests/cli/command.h"

namespace quern::cli_tests {
namespace {

class CacheTest : public CommandTest {
 protected:
  void warm(int count) const {
    const Finished finished = quern({"warm", host_kernels(count)});
    ASSERT_EQ(finished.code, 0) << finished.err;
  }
  std::string bundle(const char* name = "kernels.quern") const {
    EXPECT_EQ(quern({"export", name}).code, 0);
    return folder() / name;
  }
  std::string first_key() const { return quern_json({"list"})["entries"][0]["key"]; }

  // Changes the first entry's image where it lies in `file`. There must be a second one to tell it from.
  void damage_image(const std::filesystem::path& file) const {
    const Json entries = quern_json({"list"})["entries"];
    std::string images[2];
    for (std::size_t i = 0; i < 2; ++i) {
      ASSERT_EQ(quern({"inspect", entries[i]["key"], "--extract", "image"}).code, 0);
      images[i] = read(folder() / "image");
    }
    const auto differ = std::mismatch(images[0].begin(), images[0].end(), images[1].begin(), images[1].end()).first;
    const std::string own(differ, differ + 16);
    std::string bytes = read(file);
    // Everywhere: pages of a database hold what is no longer meant, too.
    int found = 0;
    for (std::size_t at = bytes.find(own); at != std::string::npos; at = bytes.find(own, at + 1), ++found)
      bytes[at] ^= 1;
    ASSERT_GT(found, 0) << file;
    write(std::filesystem::relative(file, folder()), bytes);
  }
};

TEST_F(CacheTest, NothingIsThereYet) {
  for (const char* command : {"list", "verify", "stats"}) {
    const Finished finished = quern({command});
    EXPECT_EQ(finished.code, 0) << command << ": " << finished.err;
    EXPECT_FALSE(std::filesystem::exists(folder() / "quern")) << command << " made a cache";
  }
  EXPECT_EQ(quern_json({"list"})["entries"], Json::array());
  EXPECT_EQ(quern_json({"stats"})["state"], "off");
  EXPECT_EQ(quern_json({"inspect", "12345678"})["error"]["status"], "QUERN_NOT_FOUND");
  EXPECT_EQ(quern({"trim", "--all"}).code, 0);
}

TEST_F(CacheTest, List) {
  warm(2);
  const Finished listed = quern({"list"});
  EXPECT_EQ(listed.code, 0) << listed.err;
  EXPECT_TRUE(has(listed.out, "KEY "));
  EXPECT_TRUE(has(listed.out, "  LAYER  KERNEL\n"));
  EXPECT_TRUE(has(quern({"list", "--long"}).out, "COMPILER"));
  EXPECT_TRUE(has(listed.out, "FACTOR=0.5f\n"));
  EXPECT_TRUE(has(listed.out, "FACTOR=1.5f\n"));
  EXPECT_TRUE(has(listed.err, "2 kernels, "));
  const Json json = quern_json({"list"});
  ASSERT_EQ(json["entries"].size(), 2U);
  for (const Json& entry : json["entries"]) {
    EXPECT_EQ(entry["op"], "kernel");
    EXPECT_EQ(entry["target"], "host");
    EXPECT_EQ(entry["kind"], "image");
    EXPECT_EQ(entry["entry_name"], "scale");
    EXPECT_EQ(entry["layer"], 0);
    EXPECT_GT(entry["image_size"].get<int>(), 0);
    EXPECT_GT(entry["created"].get<long>(), 1'600'000'000);
    EXPECT_GT(entry["compile_ms"].get<double>(), 0);
    EXPECT_TRUE(has(listed.out, '\n' + entry["key"].get<std::string>().substr(0, 8)));
  }
  EXPECT_EQ(quern_json({"list", "host"})["entries"].size(), 2U);
  EXPECT_EQ(quern_json({"list", "kernel"})["entries"].size(), 2U);
  EXPECT_EQ(quern_json({"list", first_key().substr(0, 8)})["entries"].size(), 1U);
  EXPECT_EQ(quern_json({"list", "sm_90a"})["entries"].size(), 0U);
}

// What is listed can be warmed again: it is the same kernel, to the key.
TEST_F(CacheTest, AListIsAManifest) {
  const std::string first = write("first.manifest",
                                  "merge_state host dtype=bf16\n"
                                  "moe_combine host dtype=f16 out=f32 alignment=4\n");
  ASSERT_EQ(quern({"warm", first}).code, 0);
  const Finished listed = quern({"list", "--manifest"});
  EXPECT_EQ(listed.code, 0) << listed.err;
  EXPECT_TRUE(has(listed.out, "merge_state host dtype=bf16\n"));
  const Json again = quern_json({"warm", "-", "--list-only"}, listed.out);
  EXPECT_EQ(again["code"], 0) << again;
  EXPECT_EQ(again["counts"]["cached"], 2) << again;
  // A kernel of one's own, whose source the cache does not hold, is a comment.
  warm(1);
  EXPECT_TRUE(has(quern({"list", "--manifest", "kernel"}).out, "# kernel host entry=scale FACTOR=0.5f\n"));
}

TEST_F(CacheTest, ASecondImportAddsNothing) {
  warm(2);
  const std::string file = bundle();
  EXPECT_EQ(quern_json({"import", file, "--cache", "other"})["count"], 2);
  EXPECT_EQ(quern_json({"import", file, "--cache", "other"})["count"], 0);
  EXPECT_TRUE(has(quern({"import", file, "--cache", "other"}).out, "all of it is in the cache"));
}

TEST_F(CacheTest, Inspect) {
  warm(1);
  const std::string key = first_key();
  const Finished finished = quern({"inspect", key.substr(0, 6), "--extract", "image.so"});
  EXPECT_EQ(finished.code, 0) << finished.err;
  EXPECT_TRUE(has(finished.out, "key        " + key));
  EXPECT_TRUE(has(finished.out, "entry      scale"));
  EXPECT_TRUE(has(finished.out, "made from\nquern 2\nop kernel\ntarget host\nentry scale\nconst FACTOR 0.5f\n"));
  EXPECT_TRUE(has(finished.out, "\nlog\n"));
  const Json json = quern_json({"inspect", key, "--extract", "image.so"});
  EXPECT_EQ(json["entry"]["key"], key);
  EXPECT_TRUE(json["entry"].contains("log"));
  EXPECT_EQ(json["extracted"], "image.so");
  EXPECT_EQ(read(folder() / "image.so").size(), json["entry"]["image_size"].get<std::size_t>());
  struct stat info{};
  ASSERT_EQ(stat((folder() / "image.so").c_str(), &info), 0);
  const mode_t mask = umask(0);
  umask(mask);
  EXPECT_EQ(info.st_mode & 0777, 0666U & ~mask);
  for (const auto& entry : std::filesystem::directory_iterator(folder())) {
    EXPECT_FALSE(has(entry.path().filename().string(), "image.so.")) << "left behind";
  }
}

TEST_F(CacheTest, InspectRefuses) {
  warm(1);
  for (const char* key : {"123", "xyzw", "kernel"}) {
    const Json json = quern_json({"inspect", key});
    EXPECT_EQ(json["code"], 2) << json;
    EXPECT_TRUE(has(json["error"]["text"].get<std::string>(), key));
  }
  const std::string key = first_key();
  const std::string other = (key[0] == 'f' ? '0' : 'f') + key.substr(1);
  EXPECT_EQ(quern_json({"inspect", other})["error"]["status"], "QUERN_NOT_FOUND");
  const Json json = quern_json({"inspect", key, "--extract", "no/such/folder/image"});
  EXPECT_EQ(json["code"], 1);
  EXPECT_TRUE(has(json["error"]["text"].get<std::string>(), "no/such/folder/image"));
}

TEST_F(CacheTest, Verify) {
  warm(2);
  const Finished finished = quern({"verify"});
  EXPECT_EQ(finished.code, 0) << finished.err;
  EXPECT_TRUE(has(finished.out, "ok       cache"));
  EXPECT_TRUE(has(finished.err, "no damage found"));
  EXPECT_EQ(quern_json({"verify", "--bundle", bundle()})["findings"].size(), 2U);
}

TEST_F(CacheTest, Trim) {
  warm(3);
  const Json none = quern_json({"trim", "--limit", "1G"});
  EXPECT_EQ(none["removed"], 0);
  EXPECT_EQ(none["kept"], 3);
  const Json rebuilt = quern_json({"trim", "--rebuild"});
  EXPECT_EQ(rebuilt["code"], 0) << rebuilt;
  EXPECT_EQ(rebuilt["kept"], 3);
  const Json some = quern_json({"trim", "--limit", "1"});
  EXPECT_EQ(some["removed"], 3);
  warm(3);
  const Finished all = quern({"trim", "--all"});
  EXPECT_EQ(all.code, 0) << all.err;
  EXPECT_TRUE(has(all.out, "removed 3 kernels, kept 0; "));
  EXPECT_EQ(quern_json({"list"})["entries"], Json::array());
}

TEST_F(CacheTest, ExportAndImportAreDeterministic) {
  warm(3);
  const std::string whole = bundle();
  ASSERT_EQ(quern({"import", whole, "--cache", "second"}).code, 0);
  // Another order of insertion: one by one, last first.
  const Json entries = quern_json({"list"})["entries"];
  for (auto entry = entries.rbegin(); entry != entries.rend(); ++entry) {
    const std::string key = (*entry)["key"];
    ASSERT_EQ(quern_json({"export", "one.quern", key})["count"], 1);
    ASSERT_EQ(quern_json({"import", "one.quern", "--cache", "third"})["count"], 1);
  }
  for (const char* cache : {"second", "third"}) {
    const Json json = quern_json({"export", "again.quern", "--cache", cache});
    EXPECT_EQ(json["code"], 0) << json;
    EXPECT_EQ(json["count"], 3);
    EXPECT_EQ(json["file"], "again.quern");
    EXPECT_TRUE(read(whole) == read(folder() / "again.quern")) << cache;
  }
  EXPECT_EQ(quern_json({"warm", host_kernels(3), "--cache", "second"})["counts"]["cached"], 3);
}

TEST_F(CacheTest, ABundleServesWithoutACache) {
  warm(2);
  const std::string file = bundle();
  const Json listed = quern_json({"list", "--cache", "empty", "--bundle", file});
  EXPECT_EQ(listed["code"], 0) << listed;
  ASSERT_EQ(listed["entries"].size(), 2U);
  EXPECT_EQ(listed["entries"][0]["layer"], 1);
  const Finished people = quern({"list", "--cache", "empty", "--bundle", file});
  EXPECT_TRUE(has(people.out, "kernels.quern"));
  const Json warmed = quern_json({"warm", host_kernels(2), "--cache", "empty", "--bundle", file});
  EXPECT_EQ(warmed["counts"]["cached"], 2);
  EXPECT_EQ(quern_json({"stats", "--cache", "empty", "--bundle", file})["bundle_entries"], 2);
}

TEST_F(CacheTest, ExportSelects) {
  warm(2);
  EXPECT_EQ(quern_json({"export", "a.quern", first_key()})["count"], 1);
  EXPECT_EQ(quern_json({"export", "b.quern", "host"})["count"], 2);
  const Finished none = quern({"export", "c.quern", "sm_90a"});
  EXPECT_EQ(none.code, 0);
  EXPECT_TRUE(has(none.err, "warning: the bundle is empty"));
}

TEST_F(CacheTest, BundlesAreSignedAndTrusted) {
  warm(2);
  const Json made = quern_json({"keys", "fleet.key"});
  EXPECT_EQ(made["made"], true) << made;
  const std::string key = made["public"];
  EXPECT_EQ(key.size(), 64U);
  EXPECT_EQ(std::filesystem::status(folder() / "fleet.key").permissions(), std::filesystem::perms(0600));
  const Json again = quern_json({"keys", "fleet.key"});
  EXPECT_EQ(again["made"], false);
  EXPECT_EQ(again["public"], key) << "a key is never replaced";
  const std::string other = quern_json({"keys", "other.key"})["public"];
  EXPECT_NE(other, key);
  const Json exported = quern_json({"export", "signed.quern", "--sign", "fleet.key"});
  EXPECT_EQ(exported["signed"], true) << exported;
  ASSERT_EQ(quern_json({"export", "plain.quern"})["signed"], false);
  EXPECT_EQ(quern({"verify", "--bundle", "signed.quern", "--trust", key}).code, 0);
  EXPECT_EQ(quern({"import", "signed.quern", "--cache", "second", "--trust", key}).code, 0);
  const Json unsigned_one = quern_json({"import", "plain.quern", "--cache", "third", "--trust", key});
  EXPECT_EQ(unsigned_one["code"], 1) << unsigned_one;
  EXPECT_TRUE(has(unsigned_one["error"]["text"].get<std::string>(), "is not signed")) << unsigned_one;
  EXPECT_NE(quern({"import", "signed.quern", "--cache", "third", "--trust", other}).code, 0);
  EXPECT_EQ(quern({"export", "x.quern", "--sign", "nowhere.key"}).code, 1);
  EXPECT_FALSE(std::filesystem::exists(folder() / "x.quern")) << "what cannot be signed is not written either";
}

TEST_F(CacheTest, ExportAndImportRefuse) {
  warm(1);
  EXPECT_EQ(quern({"export", "no/such/folder/b.quern"}).code, 1);
  const Json missing = quern_json({"import", "nowhere.quern"});
  EXPECT_EQ(missing["code"], 1);
  EXPECT_TRUE(has(missing["error"]["text"].get<std::string>(), "nowhere.quern"));
  const Json layer = quern_json({"list", "--bundle", "nowhere.quern"});
  EXPECT_EQ(layer["code"], 1);
  EXPECT_TRUE(has(layer["error"]["text"].get<std::string>(), "nowhere.quern"));
  const Json foreign =
      quern_json({"import", write("text.quern", "this is no bundle, however long it may be made to look")});
  EXPECT_EQ(foreign["code"], 3) << foreign;
}

TEST_F(CacheTest, Stats) {
  warm(2);
  const Json json = quern_json({"stats"});
  EXPECT_EQ(json["state"], "ready") << json;
  EXPECT_EQ(json["path"], cache_file().string());
  EXPECT_EQ(json["entries"], 2);
  EXPECT_EQ(json["file_bytes"], std::filesystem::file_size(cache_file()));
  ASSERT_EQ(json["parts"].size(), 1U);
  EXPECT_EQ(json["parts"][0]["target"], "host");
  EXPECT_EQ(json["parts"][0]["entries"], 2);
  EXPECT_EQ(json["parts"][0]["image_bytes"], json["image_bytes"]);
  const Finished people = quern({"stats"});
  EXPECT_TRUE(has(people.out, "state    ready"));
  EXPECT_TRUE(has(people.out, "kernels  2, "));
}

TEST_F(CacheTest, Doctor) {
  const Finished finished = quern({"doctor"});
  EXPECT_EQ(finished.code, 0) << finished.err;
  for (const char* what : {"nvrtc", "hiprtc", "cxx", "helper", "cache"}) EXPECT_TRUE(has(finished.out, what));
  const Json json = quern_json({"doctor"});
  EXPECT_EQ(json["abi"], 1);
  for (const Json& finding : json["findings"]) {
    EXPECT_FALSE(finding["what"].get<std::string>().empty());
    // Whatever is missing comes with what to do about it.
    EXPECT_TRUE(finding["status"] == "QUERN_OK" || finding["hint"] != "") << finding;
  }
}

TEST_F(CacheTest, SearchDirectories) {
  const std::string nowhere = folder() / "nowhere";
  const Json json = quern_json({"doctor", "--search-dir", "nowhere"});
  EXPECT_EQ(json["code"], 0) << json;
  EXPECT_EQ(quern_json({"--search-dir", nowhere, "doctor", "--search-dir", "also"})["code"], 0);
}

TEST_F(CacheTest, ADamagedImageIsFoundAndMended) {
  warm(3);
  const std::string key = first_key();
  damage_image(cache_file());
  const Finished verified = quern({"verify"});
  EXPECT_EQ(verified.code, 3) << verified.out;
  EXPECT_TRUE(has(verified.out, "damaged"));
  EXPECT_TRUE(has(verified.out, key));
  const Json json = quern_json({"verify"});
  EXPECT_EQ(json["code"], 3);
  EXPECT_EQ(json["error"]["status"], "QUERN_DAMAGED");
  EXPECT_EQ(quern_json({"inspect", key})["code"], 3);

  const Json mended = quern_json({"trim", "--rebuild"});
  EXPECT_EQ(mended["code"], 0) << mended;
  EXPECT_EQ(mended["removed"], 1);
  EXPECT_EQ(mended["kept"], 2);
  EXPECT_EQ(quern({"verify"}).code, 0);
  const Json warmed = quern_json({"warm", host_kernels(3)});
  EXPECT_EQ(warmed["counts"]["compiled"], 1);
  EXPECT_EQ(warmed["counts"]["cached"], 2);
}

TEST_F(CacheTest, ADamagedFileIsFoundAndMended) {
  warm(2);
  std::string bytes = read(cache_file());
  // The file's header stays: without it the file would be somebody else's, and left alone.
  std::fill(bytes.begin() + 100, bytes.end(), '\xa5');
  write(std::filesystem::relative(cache_file(), folder()), bytes);
  for (const char* command : {"stats", "list", "verify", "doctor"}) {
    const Json json = quern_json({command});
    EXPECT_EQ(json["code"], 3) << command << ": " << json;
    EXPECT_EQ(json["error"]["status"], "QUERN_DAMAGED");
  }
  EXPECT_EQ(quern_json({"trim", "--rebuild"})["code"], 0);
  EXPECT_EQ(quern_json({"stats"})["state"], "ready");
  EXPECT_EQ(quern_json({"warm", host_kernels(2)})["code"], 0);
}

TEST_F(CacheTest, ADamagedBundleIsRefusedWhole) {
  warm(2);
  const std::filesystem::path file = bundle();
  damage_image(file);
  const Json imported = quern_json({"import", file, "--cache", "second"});
  EXPECT_EQ(imported["code"], 3) << imported;
  EXPECT_EQ(quern_json({"list", "--cache", "second"})["entries"], Json::array());
  EXPECT_EQ(quern_json({"verify", "--cache", "second", "--bundle", file})["code"], 3);
}

TEST_F(CacheTest, AnUnsafePlaceIsRefusedUnlessItIsSaidToBeShared) {
  const std::filesystem::path place = folder() / "common";
  std::filesystem::create_directory(place);
  std::filesystem::permissions(place, std::filesystem::perms::all);
  const Json refused = quern_json({"stats", "--cache", "common"});
  EXPECT_EQ(refused["state"], "refused") << refused;
  EXPECT_EQ(quern_json({"warm", host_kernels(1), "--cache", "common", "--shared-cache"})["counts"]["compiled"], 1);
  EXPECT_EQ(quern_json({"stats", "--cache", "common", "--shared-cache"})["entries"], 1);
}

}  // namespace
}  // namespace quern::cli_tests
