# Script: cmake -DSOURCE=... -DSTAGE=... -DVERSION=... -P StagePublicHeaders.cmake
# Lays the public headers out as they are installed, all below STAGE/quire, and writes STAGE/quire/abi.h. The headers of src/ name each other by
# folder ("layers/linear.h"); installed, folders of such names would be in the way of a plugin's own, so they move below quire/ and are named so.
file(STRINGS ${SOURCE}/cmake/public_headers.txt headers)
set(all "")
foreach(header IN LISTS headers)
  file(READ ${SOURCE}/${header} text)
  string(APPEND all "${header}\n${text}")
  string(REGEX REPLACE "#include \"(quire/)?([a-z_]+[a-z_/]*\\.h)\"" "#include \"quire/\\2\"" text "${text}")
  string(REGEX REPLACE "^(src|include/quire)/" "" target ${header})
  file(CONFIGURE OUTPUT ${STAGE}/quire/${target} CONTENT "${text}" @ONLY)
endforeach()
string(SHA256 hash "${all}")
string(SUBSTRING ${hash} 0 16 hash)
file(CONFIGURE OUTPUT ${STAGE}/quire/abi.h @ONLY CONTENT
"// Written by quire's build: what the public headers' text was.
#pragma once

#define QUIRE_VERSION \"${VERSION}\"
#define QUIRE_HEADERS_HASH \"${hash}\"
")
