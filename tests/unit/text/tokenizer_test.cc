#include "text/tokenizer.h"

#include <gtest/gtest.h>

#include <fstream>
#include <sstream>
namespace quire {
TEST(Tokenizer, Loads) {
  std::ifstream in(QUIRE_TESTS_DIR "/golden/models/llama/tokenizer.json");
  std::stringstream s;
  s << in.rdbuf();
  auto t = Tokenizer::from_json(s.str());
  ASSERT_TRUE(t.ok()) << t.error().message;
  auto ids = (*t)->encode("Hello <|im_start|>x", false);
  ASSERT_TRUE(ids.ok());
  EXPECT_EQ(*(*t)->decode(*ids, false), "Hello <|im_start|>x");
}
}  // namespace quire
