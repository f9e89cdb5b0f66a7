#include "server/model_choice.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <thread>
#include <vector>

#include "server/response/error_response.h"

namespace quire {
namespace {

/// An error names no more models than this.
constexpr size_t kMaxNamed = 50;

Error unknown_model(const ServerContext& context, const std::string& asked) {
  std::vector<std::string> names = context.model_names;
  if (const AdapterCatalog* adapters = context.backend.adapters()) {
    for (const AdapterListing& row : adapters->list()) names.push_back(row.spec.name);
  }
  const size_t more = names.size() - std::min(names.size(), kMaxNamed);
  names.resize(names.size() - more);
  return not_found(
      fmt::format("The model '{}' does not exist; this server has: {}{}.", asked.substr(0, 200), fmt::join(names, ", "),
                  more > 0 ? fmt::format(" and {} more (see /v1/models)", more) : std::string()),
      "model");
}

bool is_base(const ServerContext& context, const std::optional<std::string>& asked) {
  return !asked || asked->empty() || std::ranges::count(context.model_names, *asked) > 0;
}

std::string base_name(const ServerContext& context, const std::optional<std::string>& asked) {
  return !asked || asked->empty() ? context.model_names.front() : *asked;
}

/// Carries on with a request whose model is known, and answers it where that fails.
void carry_on(const std::shared_ptr<ResponseWriter>& writer, const std::function<Status(ModelChoice)>& then,
              ModelChoice choice) {
  try {
    if (const Status status = then(std::move(choice)); !status.ok()) writer->send(error_response(status.error()));
  } catch (const std::exception& fault) {
    spdlog::error("A request failed: {}", fault.what());
    writer->send(error_response(500, "Internal server error."));
  }
}

}  // namespace

Result<std::string> resolve_model(const ServerContext& context, const std::optional<std::string>& asked) {
  if (is_base(context, asked)) return base_name(context, asked);
  const AdapterCatalog* adapters = context.backend.adapters();
  if (adapters != nullptr && adapters->knows(*asked)) return *asked;
  return unknown_model(context, *asked);
}

void with_model(ServerContext& context, const std::optional<std::string>& asked,
                const std::shared_ptr<ResponseWriter>& writer, std::function<Status(ModelChoice)> then) {
  if (is_base(context, asked)) return carry_on(writer, then, {base_name(context, asked), nullptr});
  const auto answer = [&context, name = *asked, writer, then = std::move(then)](const Result<AdapterLease>& lease) {
    if (lease.ok()) return carry_on(writer, then, {name, *lease});
    const bool unknown = lease.error().kind == ErrorKind::kNotFound && lease.error().param == "model";
    Error error = unknown ? unknown_model(context, name) : lease.error();
    if (!unknown) error.param = "model";
    // The files of a known adapter are gone: the name is right, so this is no unknown model.
    if (!unknown && error.kind == ErrorKind::kNotFound) error.kind = ErrorKind::kInvalidArgument;
    writer->send(error_response(error));
  };
  AdapterCatalog* const adapters = context.backend.adapters();
  if (adapters == nullptr) return writer->send(error_response(unknown_model(context, *asked)));
  adapters->acquire(*asked, [answer, caller = std::this_thread::get_id(), writer, &context,
                             gate = context.gate](Result<AdapterLease> lease) {
    if (std::this_thread::get_id() == caller) return answer(lease);
    // On the loader's thread: prompts are tokenized elsewhere. The server may have stopped meanwhile.
    gate->pass([&] {
      const auto shared = std::make_shared<const Result<AdapterLease>>(std::move(lease));
      if (context.pool.submit([answer, shared] { answer(*shared); })) return;
      writer->send(error_response(503, "The server has too many requests to read; try again."));
    });
  });
}

}  // namespace quire
