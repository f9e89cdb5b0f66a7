// POST /tokenize and POST /detokenize.
#include <nlohmann/json.hpp>

#include "server/model_choice.h"
#include "server/protocol/json_input.h"
#include "server/protocol/tokenize_request.h"
#include "server/response/error_response.h"
#include "server/routes/routes.h"

namespace quire {

namespace {

using Json = nlohmann::ordered_json;

Result<Json> tokenize(const ServerContext& context, const HttpRequest& http) {
  QUIRE_ASSIGN_OR_RETURN(const Json body, parse_json_object(http.body));
  QUIRE_ASSIGN_OR_RETURN(const TokenizeRequest request, parse_tokenize_request(body));
  if (const auto model = resolve_model(context, request.model); !model.ok()) return model.error();
  const auto* chat = std::get_if<Conversation>(&request.prompt);
  auto encoded = chat ? context.backend.encode_chat(*chat)
                      : context.backend.encode(std::get<std::string>(request.prompt), request.add_special_tokens);
  QUIRE_ASSIGN_OR_RETURN(const std::vector<int32_t> ids, std::move(encoded));
  Json strings = nullptr;
  if (request.return_token_strs) {
    strings = Json::array();
    for (const int32_t id : ids) strings.push_back(context.backend.id_to_token(id).value_or(""));
  }
  return Json{{"count", ids.size()},
              {"max_model_len", context.backend.limits().max_model_len},
              {"tokens", ids},
              {"token_strs", std::move(strings)}};
}

Result<Json> detokenize(const ServerContext& context, const HttpRequest& http) {
  QUIRE_ASSIGN_OR_RETURN(const Json body, parse_json_object(http.body));
  QUIRE_ASSIGN_OR_RETURN(const DetokenizeRequest request,
                         parse_detokenize_request(body, context.backend.rules().vocab_size));
  if (const auto model = resolve_model(context, request.model); !model.ok()) return model.error();
  QUIRE_ASSIGN_OR_RETURN(const std::string text, context.backend.decode(request.tokens, false));
  return Json{{"prompt", text}};
}

void answer(const Result<Json>& result, const std::shared_ptr<ResponseWriter>& writer) {
  if (!result.ok()) return writer->send(error_response(result.error()));
  HttpResponse response;
  response.body = to_wire(result.value());
  writer->send(std::move(response));
}

}  // namespace

void serve_tokenize(ServerContext& context, const HttpRequest& request, const std::shared_ptr<ResponseWriter>& writer) {
  answer(tokenize(context, request), writer);
}

void serve_detokenize(ServerContext& context, const HttpRequest& request,
                      const std::shared_ptr<ResponseWriter>& writer) {
  answer(detokenize(context, request), writer);
}

}  // namespace quire
