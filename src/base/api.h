// What the program exports to libraries that are loaded into it, and libquire.so to programs; all else is hidden.
#pragma once

#define QUIRE_API __attribute__((visibility("default")))
