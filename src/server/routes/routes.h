// The endpoints. Each function takes one request to its answer; make_router says which path is whose.
#pragma once

#include <functional>
#include <memory>
#include <nlohmann/json_fwd.hpp>

#include "server/router.h"
#include "server/server_context.h"

namespace quire {

/// All routes. The context must outlive the router. Handlers that parse, render, tokenize or look at the disk run on
/// the context's pool; the others answer on the IO thread.
Router make_router(ServerContext& context);

void serve_completions(ServerContext& context, const HttpRequest& request,
                       const std::shared_ptr<ResponseWriter>& writer);
void serve_chat_completions(ServerContext& context, const HttpRequest& request,
                            const std::shared_ptr<ResponseWriter>& writer);
void serve_tokenize(ServerContext& context, const HttpRequest& request, const std::shared_ptr<ResponseWriter>& writer);
void serve_detokenize(ServerContext& context, const HttpRequest& request,
                      const std::shared_ptr<ResponseWriter>& writer);
void serve_models(ServerContext& context, const HttpRequest& request, const std::shared_ptr<ResponseWriter>& writer);
void serve_model(ServerContext& context, const HttpRequest& request, const std::shared_ptr<ResponseWriter>& writer);
void serve_load_lora_adapter(ServerContext& context, const HttpRequest& request,
                             const std::shared_ptr<ResponseWriter>& writer);
void serve_unload_lora_adapter(ServerContext& context, const HttpRequest& request,
                               const std::shared_ptr<ResponseWriter>& writer);
void serve_health(ServerContext& context, const HttpRequest& request, const std::shared_ptr<ResponseWriter>& writer);
void serve_version(ServerContext& context, const HttpRequest& request, const std::shared_ptr<ResponseWriter>& writer);
void serve_metrics(ServerContext& context, const HttpRequest& request, const std::shared_ptr<ResponseWriter>& writer);

}  // namespace quire
