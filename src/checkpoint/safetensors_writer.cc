#include "checkpoint/safetensors_writer.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <nlohmann/json.hpp>
#include <utility>

namespace quire {
namespace {

using nlohmann::ordered_json;

Error system_error(const std::filesystem::path& path) {
  return invalid_argument("cannot write " + path.string() + ": " + std::strerror(errno));
}

/// The header's text, padded so that the data begins on an element's alignment.
std::string header_text(std::span<const SafetensorsTensor> tensors) {
  ordered_json header;
  header["__metadata__"] = {{"format", "pt"}};
  size_t offset = 0;
  for (const SafetensorsTensor& tensor : tensors) {
    header[tensor.name] = {
        {"dtype", tensor.dtype}, {"shape", tensor.shape}, {"data_offsets", {offset, offset + tensor.bytes}}};
    offset += tensor.bytes;
  }
  std::string text = header.dump(-1, ' ', false, ordered_json::error_handler_t::replace);
  text.resize((text.size() + 7) / 8 * 8, ' ');
  return text;
}

}  // namespace

Result<SafetensorsWriter> SafetensorsWriter::create(const std::filesystem::path& path,
                                                    std::span<const SafetensorsTensor> tensors) {
  const int descriptor = ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  if (descriptor < 0) return system_error(path);
  SafetensorsWriter writer;
  writer.path_ = path;
  writer.file_.reset(::fdopen(descriptor, "wb"));
  if (!writer.file_) {
    ::close(descriptor);
    return system_error(path);
  }
  for (const SafetensorsTensor& tensor : tensors) writer.expected_ += tensor.bytes;
  const std::string header = header_text(tensors);
  const uint64_t header_bytes = header.size();
  QUIRE_RETURN_IF_ERROR(writer.write(&header_bytes, sizeof(header_bytes)));
  QUIRE_RETURN_IF_ERROR(writer.write(header.data(), header.size()));
  return writer;
}

Status SafetensorsWriter::append(std::span<const std::byte> bytes) {
  written_ += bytes.size();
  QUIRE_CHECK(written_ <= expected_);
  return write(bytes.data(), bytes.size());
}

Status SafetensorsWriter::finish() {
  QUIRE_CHECK(written_ == expected_);
  if (std::fclose(file_.release()) != 0) return system_error(path_);
  return {};
}

Status SafetensorsWriter::write(const void* data, size_t bytes) {
  if (std::fwrite(data, 1, bytes, file_.get()) != bytes) return system_error(path_);
  return {};
}

SafetensorsShards plan_safetensors_shards(std::span<const SafetensorsTensor> tensors, int64_t max_bytes,
                                          const std::string& stem) {
  SafetensorsShards shards;
  size_t used = 0, total = 0;
  for (size_t i = 0; i < tensors.size(); ++i) {
    if (shards.tensors.empty() || (used > 0 && used + tensors[i].bytes > static_cast<size_t>(max_bytes))) {
      shards.tensors.emplace_back();
      used = 0;
    }
    shards.tensors.back().push_back(i);
    used += tensors[i].bytes;
    total += tensors[i].bytes;
  }
  const size_t count = shards.tensors.size();
  if (count <= 1) {
    shards.names.assign(count, stem + ".safetensors");
    return shards;
  }
  ordered_json index = {{"metadata", {{"total_size", total}}}, {"weight_map", ordered_json::object()}};
  for (size_t shard = 0; shard < count; ++shard) {
    shards.names.push_back(fmt::format("{}-{:05}-of-{:05}.safetensors", stem, shard + 1, count));
    for (const size_t tensor : shards.tensors[shard]) index["weight_map"][tensors[tensor].name] = shards.names.back();
  }
  shards.index = index.dump(2, ' ', false, ordered_json::error_handler_t::replace) + "\n";
  return shards;
}

}  // namespace quire
