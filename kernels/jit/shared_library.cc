#include "kernels/jit/shared_library.h"

#include <dlfcn.h>
#include <link.h>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"

namespace hone {
namespace {

// Where a toolkit keeps its libraries.
void AppendToolkit(absl::string_view root, std::vector<std::string>* folders) {
  for (absl::string_view sub :
       {"lib64", "targets/x86_64-linux/lib", "extras/CUPTI/lib64"}) {
    folders->push_back(absl::StrCat(root, "/", sub));
  }
}

bool IsAbsolute(absl::string_view path) { return absl::StartsWith(path, "/"); }

std::string PathOf(void* handle) {
  link_map* map = nullptr;
  if (dlinfo(handle, RTLD_DI_LINKMAP, &map) != 0 || map == nullptr) return "";
  return map->l_name;
}

}  // namespace

LibrarySearch LibrarySearchFromEnvironment(EnvLookup env) {
  const auto get = [&env](const char* name) {
    const char* value = env(name);
    return absl::string_view(value == nullptr ? "" : value);
  };
  LibrarySearch search;
  for (absl::string_view folder :
       absl::StrSplit(get("HONE_CUDA_LIB_DIR"), ':', absl::SkipEmpty())) {
    if (!IsAbsolute(folder)) continue;
    search.first.emplace_back(folder);
    // site-packages/nvidia/: one folder for all since CUDA 13, before that
    // one for each library.
    for (absl::string_view wheel : {"cu13", "cuda_nvrtc", "cuda_cupti"}) {
      search.first.push_back(absl::StrCat(folder, "/nvidia/", wheel, "/lib"));
    }
  }
  if (IsAbsolute(get("CUDA_HOME")))
    AppendToolkit(get("CUDA_HOME"), &search.then);
  AppendToolkit("/usr/local/cuda", &search.then);
  search.loader_path = std::string(get("LD_LIBRARY_PATH"));
  return search;
}

SharedLibrary::SharedLibrary(std::string title, void* handle)
    : title_(std::move(title)), handle_(handle), path_(PathOf(handle)) {}

absl::StatusOr<SharedLibrary> SharedLibrary::Open(const LibraryNeed& need,
                                                  const LibrarySearch& search) {
  // An empty folder stands for the loader's own search.
  std::vector<std::string> places = search.first;
  places.emplace_back();
  places.insert(places.end(), search.then.begin(), search.then.end());
  // The loader's words about a file that is there but does not load.
  std::string broken;
  for (const std::string& place : places) {
    for (const std::string& name : need.names) {
      const std::string file =
          place.empty() ? name : absl::StrCat(place, "/", name);
      void* handle = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
      if (handle != nullptr) return SharedLibrary(need.title, handle);
      const char* error = dlerror();
      if (error != nullptr && broken.empty() &&
          !absl::StrContains(error, "cannot open shared object file")) {
        broken = absl::StrCat("; ", error);
      }
    }
  }
  places[search.first.size()] = "the loader's folders and LD_LIBRARY_PATH";
  return absl::UnavailableError(absl::StrCat(
      need.title, " is missing: ", need.without, "; ", need.still,
      ". Install it, or name its folder in HONE_CUDA_LIB_DIR. Tried ",
      absl::StrJoin(need.names, ", "), " in ", absl::StrJoin(places, ", "),
      broken));
}

absl::StatusOr<void*> SharedLibrary::Find(const char* name) const {
  void* address = dlsym(handle_, name);
  if (address == nullptr) {
    return absl::UnavailableError(
        absl::StrCat(title_, " (", path_, ") has no ", name,
                     ": this version of it does not fit Hone"));
  }
  return address;
}

}  // namespace hone
