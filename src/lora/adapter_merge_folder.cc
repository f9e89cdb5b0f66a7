#include "lora/adapter_merge_folder.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "checkpoint/json_document.h"
#include "checkpoint/safetensors_writer.h"
#include "lora/adapter_merge.h"

namespace quire {
namespace {

namespace fs = std::filesystem;

Error cannot(const char* action, const fs::path& path, const std::error_code& error) {
  return invalid_argument(std::string("cannot ") + action + " " + path.string() + ": " + error.message());
}

/// A folder that is removed unless it was renamed.
class PartialFolder {
 public:
  explicit PartialFolder(const fs::path& output)
      : output_(output),
        path_(output.parent_path() / fmt::format(".{}.partial-{}", output.filename().string(), ::getpid())) {}
  ~PartialFolder() {
    std::error_code ignored;
    if (created_) fs::remove_all(path_, ignored);
  }
  PartialFolder(const PartialFolder&) = delete;
  PartialFolder& operator=(const PartialFolder&) = delete;

  Status create() {
    std::error_code error;
    fs::create_directories(output_.parent_path(), error);
    if (error) return cannot("create", output_.parent_path(), error);
    created_ = fs::create_directory(path_, error);
    if (!created_) return cannot("create", path_, error);
    return {};
  }

  Status finish() {
    std::error_code error;
    fs::rename(path_, output_, error);
    if (error) return cannot("rename the merged folder to", output_, error);
    created_ = false;
    return {};
  }

  const fs::path& path() const { return path_; }

 private:
  fs::path output_, path_;
  bool created_ = false;
};

using File = std::unique_ptr<std::FILE, int (*)(std::FILE*)>;

Error cannot_because_of_errno(const char* action, const fs::path& path) {
  return cannot(action, path, {errno, std::generic_category()});
}

/// Writes what `next` gives until it gives nothing.
template <typename Next>
Status write_file(const fs::path& path, Next next) {
  File file(std::fopen(path.c_str(), "wb"), &std::fclose);
  if (!file) return cannot_because_of_errno("write", path);
  for (std::string_view part = next(); !part.empty(); part = next()) {
    if (std::fwrite(part.data(), 1, part.size(), file.get()) != part.size()) {
      return cannot_because_of_errno("write", path);
    }
  }
  if (std::fclose(file.release()) != 0) return cannot_because_of_errno("write", path);
  return {};
}

Status write_text(const fs::path& path, const std::string& text) {
  return write_file(path,
                    [left = std::string_view(text)]() mutable { return std::exchange(left, std::string_view()); });
}

/// Not fs::copy_file: that calls a full disk an input or output error.
Status copy_one(const fs::path& from, const fs::path& to) {
  const File file(std::fopen(from.c_str(), "rb"), &std::fclose);
  if (!file) return cannot_because_of_errno("read", from);
  std::string buffer(size_t{1} << 20, '\0');
  QUIRE_RETURN_IF_ERROR(write_file(
      to, [&] { return std::string_view(buffer.data(), std::fread(buffer.data(), 1, buffer.size(), file.get())); }));
  if (std::ferror(file.get()) != 0) return cannot_because_of_errno("read", from);
  return {};
}

/// Weights in any format, their indices, and what describes the base alone.
bool is_left_behind(const fs::path& name) {
  const std::string text = name.string();
  if (text.starts_with(".") || text == "README.md" || text.ends_with(".index.json")) return true;
  constexpr std::string_view kWeights[] = {".safetensors", ".bin",     ".pt",   ".pth", ".gguf",
                                           ".h5",          ".msgpack", ".onnx", ".ot"};
  return std::ranges::find(kWeights, name.extension().string()) != std::end(kWeights);
}

/// The base's config, but for a head that is not the embedding any more.
Status write_config(const fs::path& from, const fs::path& to, bool unties_head) {
  QUIRE_ASSIGN_OR_RETURN(std::string text, read_json_text(from));
  QUIRE_RETURN_IF_ERROR(parse_json_object(text, from.string()));  // bounded depth, no duplicate keys
  if (unties_head) {
    auto config = nlohmann::ordered_json::parse(text);
    config["tie_word_embeddings"] = false;
    text = config.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
  }
  return write_text(to, text);
}

Status copy_others(const fs::path& from, const fs::path& to) {
  std::error_code error;
  for (fs::directory_iterator it(from, error), end; !error && it != end; it.increment(error)) {
    const fs::path name = it->path().filename();
    if (!it->is_regular_file(error) || is_left_behind(name) || name == "config.json") continue;
    QUIRE_RETURN_IF_ERROR(copy_one(it->path(), to / name));
  }
  if (error) return cannot("read", from, error);
  return {};
}

/// Writes the shards and their index.
class ShardsWriter {
 public:
  ShardsWriter(const MergePlan& plan, const AdapterFiles& files, const AdapterBase& base, ThreadPool& pool,
               const MergeOptions& options)
      : plan_(plan), files_(files), base_(base), pool_(pool), options_(options) {
    for (const MergedTensor& tensor : plan.tensors) {
      tensors_.push_back(tensor.out);
      total_ += static_cast<int64_t>(tensor.out.bytes);
    }
  }

  Status write(const fs::path& folder) {
    shards_ = plan_safetensors_shards(tensors_, options_.max_shard_bytes);
    for (size_t shard = 0; shard < shards_.names.size(); ++shard) {
      QUIRE_RETURN_IF_ERROR(write_shard(folder / shards_.names[shard], shards_.tensors[shard]));
    }
    if (shards_.index.empty()) return {};
    return write_text(folder / "model.safetensors.index.json", shards_.index);
  }

  int64_t total() const { return total_; }
  int64_t shards() const { return static_cast<int64_t>(shards_.names.size()); }

 private:
  Status write_shard(const fs::path& path, const std::vector<size_t>& indices) {
    std::vector<SafetensorsTensor> tensors;
    for (const size_t index : indices) tensors.push_back(tensors_[index]);
    QUIRE_ASSIGN_OR_RETURN(SafetensorsWriter writer, SafetensorsWriter::create(path, tensors));
    const ByteSink sink = [&](std::span<const std::byte> bytes) -> Status {
      QUIRE_RETURN_IF_ERROR(writer.append(bytes));
      done_ += static_cast<int64_t>(bytes.size());
      return options_.progress ? options_.progress(done_, total_) : Status();
    };
    for (const size_t index : indices) {
      const MergedTensor& tensor = plan_.tensors[index];
      QUIRE_RETURN_IF_ERROR(write_merged_tensor(tensor, files_, base_, pool_, sink));
      base_.tensors().release(*tensor.base);
    }
    return writer.finish();
  }

  const MergePlan& plan_;
  const AdapterFiles& files_;
  const AdapterBase& base_;
  ThreadPool& pool_;
  const MergeOptions& options_;
  std::vector<SafetensorsTensor> tensors_;
  SafetensorsShards shards_;
  int64_t done_ = 0, total_ = 0;
};

}  // namespace

Result<MergeSummary> merge_adapter(const Checkpoint& base, const AdapterFiles& files, const fs::path& output,
                                   ThreadPool& pool, const MergeOptions& options) {
  if (base.is_gguf) {
    return unsupported(base.path.string() +
                       " is a GGUF file; merging writes a folder in Hugging Face's layout and needs the model as one");
  }
  std::error_code error;
  fs::path target = fs::absolute(output, error).lexically_normal();
  if (!target.has_filename()) target = target.parent_path();  // a path that ends in '/'
  if (fs::exists(fs::symlink_status(target, error))) {
    return invalid_argument("the output " + output.string() + " exists already; give a new folder or remove it");
  }
  const AdapterBase weights(*base.weights, base.config.tie_word_embeddings);
  QUIRE_ASSIGN_OR_RETURN(const MergePlan plan, plan_merge(files, weights));
  PartialFolder folder(target);
  QUIRE_RETURN_IF_ERROR(folder.create());
  QUIRE_RETURN_IF_ERROR(copy_others(base.path, folder.path()));
  QUIRE_RETURN_IF_ERROR(write_config(base.path / "config.json", folder.path() / "config.json", plan.unties_head));
  ShardsWriter writer(plan, files, weights, pool, options);
  QUIRE_RETURN_IF_ERROR(writer.write(folder.path()));
  QUIRE_RETURN_IF_ERROR(folder.finish());
  const auto changed = std::ranges::count_if(plan.tensors, [](const auto& tensor) { return tensor.module != nullptr; });
  return MergeSummary{static_cast<int64_t>(plan.tensors.size()), changed, writer.total(), writer.shards(),
                      plan.unties_head};
}

}  // namespace quire
