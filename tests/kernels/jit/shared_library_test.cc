#include "kernels/jit/shared_library.h"

#include <cmath>
#include <cstring>
#include <map>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace hone {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

LibrarySearch SearchWith(std::map<std::string, std::string> env) {
  return LibrarySearchFromEnvironment([&env](const char* name) -> const char* {
    const auto it = env.find(name);
    return it == env.end() ? nullptr : it->second.c_str();
  });
}

TEST(SharedLibraryTest, SearchesTheDefaultToolkitWithoutEnvironment) {
  const LibrarySearch search = SearchWith({});
  EXPECT_THAT(search.first, IsEmpty());
  EXPECT_THAT(search.then,
              ElementsAre("/usr/local/cuda/lib64",
                          "/usr/local/cuda/targets/x86_64-linux/lib",
                          "/usr/local/cuda/extras/CUPTI/lib64"));
  EXPECT_EQ(search.loader_path, "");
}

TEST(SharedLibraryTest, EnvironmentOrdersTheSearch) {
  const LibrarySearch search =
      SearchWith({{"HONE_CUDA_LIB_DIR", "/a:/b:relative"},
                  {"CUDA_HOME", "/opt/cuda"},
                  {"LD_LIBRARY_PATH", "/l"}});
  EXPECT_EQ(search.first[0], "/a");
  EXPECT_THAT(search.first, Contains("/b/nvidia/cu13/lib"));
  EXPECT_THAT(search.first, Contains("/b/nvidia/cuda_nvrtc/lib"));
  EXPECT_THAT(search.first, Not(Contains(HasSubstr("relative"))));
  EXPECT_EQ(search.then[0], "/opt/cuda/lib64");
  EXPECT_THAT(search.then, Contains("/usr/local/cuda/lib64"));
  EXPECT_EQ(search.loader_path, "/l");
}

TEST(SharedLibraryTest, RelativeToolkitIsIgnored) {
  EXPECT_EQ(SearchWith({{"CUDA_HOME", "cuda"}}), SearchWith({}));
}

TEST(SharedLibraryTest, LoadsAndBinds) {
  const auto library = SharedLibrary::Open(
      {.title = "libm", .names = {"libno-such.so.1", "libm.so.6"}},
      LibrarySearch{.first = {"/no/such/folder"}});
  ASSERT_TRUE(library.ok()) << library.status();
  EXPECT_THAT(library->path(), HasSubstr("libm.so.6"));
  double (*cosine)(double) = nullptr;
  ASSERT_TRUE(library->Bind("cos", &cosine).ok());
  EXPECT_EQ(cosine(0.0), 1.0);
  void (*missing)() = nullptr;
  const absl::Status status = library->Bind("hone_no_such_symbol", &missing);
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(status.message()), HasSubstr("hone_no_such_symbol"));
}

TEST(SharedLibraryTest, MissingLibrarySaysWhatWasTriedAndWhatStillWorks) {
  const auto library =
      SharedLibrary::Open({.title = "FOO",
                           .names = {"libfoo.so.2", "libfoo.so.1"},
                           .without = "no foo",
                           .still = "bar still works"},
                          LibrarySearch{.first = {"/x"}, .then = {"/y"}});
  ASSERT_EQ(library.status().code(), absl::StatusCode::kUnavailable);
  const std::string message(library.status().message());
  for (const char* part : {"FOO is missing", "no foo", "bar still works",
                           "libfoo.so.2, libfoo.so.1", "/x, ", ", /y",
                           "LD_LIBRARY_PATH", "HONE_CUDA_LIB_DIR"}) {
    EXPECT_THAT(message, HasSubstr(part));
  }
}

}  // namespace
}  // namespace hone
