// What makes a shared library a model plugin:
//
//   #include <quire/plugin.h>
//   QUIRE_PLUGIN() { quire::ModelRegistry::instance().register_model("MyForCausalLM", make_my_model, my_config()); }
//
// The library links nothing of quire: its symbols are those of the program that loads it. docs/CUSTOM_MODELS.md walks
// through a model.
#pragma once

#include "quire/abi.h"
#include "quire/layers.h"
#include "quire/model.h"
#include "quire/ops.h"

#define QUIRE_TEXT_OF_INNER(x) #x
#define QUIRE_TEXT_OF(x) QUIRE_TEXT_OF_INNER(x)

// The standard library's types cross the border, so both sides must have the same ones.
#if defined(_LIBCPP_VERSION)
#define QUIRE_STANDARD_LIBRARY "libc++ ABI " QUIRE_TEXT_OF(_LIBCPP_ABI_VERSION)
#elif defined(_GLIBCXX_DEBUG)
#define QUIRE_STANDARD_LIBRARY "libstdc++ " QUIRE_TEXT_OF(_GLIBCXX_RELEASE) " in debug mode"
#else
#define QUIRE_STANDARD_LIBRARY \
  "libstdc++ " QUIRE_TEXT_OF(_GLIBCXX_RELEASE) " with C++11 strings " QUIRE_TEXT_OF(_GLIBCXX_USE_CXX11_ABI)
#endif

/// What a plugin and the program that loads it must have in common: quire's version, the text of its public headers
/// (as a hash) and the standard library.
#define QUIRE_PLUGIN_ABI_PREFIX "quire plugin ABI: "
#define QUIRE_PLUGIN_ABI \
  QUIRE_PLUGIN_ABI_PREFIX "quire " QUIRE_VERSION ", headers " QUIRE_HEADERS_HASH ", " QUIRE_STANDARD_LIBRARY

/// Begins the function that registers a plugin's models. It is called once, when the library is loaded; what it throws
/// is reported as the reason why it could not be.
#define QUIRE_PLUGIN()                                                             \
  extern "C" QUIRE_API const char* quire_plugin_abi() { return QUIRE_PLUGIN_ABI; } \
  extern "C" QUIRE_API void quire_plugin_register();                               \
  extern "C" QUIRE_API void quire_plugin_register()
