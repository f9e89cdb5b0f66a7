/* Hugging Face's tokenizers, chat templates and hub behind a C interface.
 *
 * All functions are thread-safe; a handle may be used by many threads at once, and must not be used during or after its
 * free. None starts a thread, and none lets a panic out. Text is UTF-8 with an explicit size and no terminating null;
 * it is only read during the call. What a function gives back through `out` or `error` belongs to the caller, who frees
 * it with the function named here. A function that returns QUIRE_HF_OK writes `out` and leaves `error` alone; otherwise
 * it writes `error` (a message) and leaves `out` alone. */
#ifndef QUIRE_HF_H
#define QUIRE_HF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What a call came to. */
enum {
  QUIRE_HF_OK = 0,
  QUIRE_HF_INVALID = 1,     /* the input is at fault */
  QUIRE_HF_RAISED = 2,      /* the template called raise_exception; the message is its argument */
  QUIRE_HF_INTERNAL = 3,    /* a fault of the library's */
  QUIRE_HF_NOT_FOUND = 4,   /* the hub, or without it the cache, has nothing of that name */
  QUIRE_HF_UNAVAILABLE = 5, /* the hub was not reached */
  QUIRE_HF_CANCELLED = 6,   /* a progress function ended the call */
};

/* Text to be read. */
typedef struct quire_hf_text {
  const char* data;
  size_t size;
} quire_hf_text;

typedef struct quire_hf_bytes {
  char* data;
  size_t size;
} quire_hf_bytes;

typedef struct quire_hf_ids {
  uint32_t* data;
  size_t size;
} quire_hf_ids;

void quire_hf_bytes_free(quire_hf_bytes bytes);
void quire_hf_ids_free(quire_hf_ids ids);

/* ---- Tokenizers ---- */

typedef struct quire_hf_tokenizer quire_hf_tokenizer;

/* From the text of a tokenizer.json (at most 256 MB, nested at most 100 deep). Its truncation and padding are not used.
 */
int quire_hf_tokenizer_new(const char* json, size_t size, quire_hf_tokenizer** out, quire_hf_bytes* error);
void quire_hf_tokenizer_free(quire_hf_tokenizer* tokenizer);

/* Token ids of a text of at most 32 MB. `add_special_tokens` applies the post-processor. `first_mark`: 0, or the range
 * that quire_hf_tokenizer_mark used for parts of the text; the marked special tokens are then encoded as ordinary text.
 */
int quire_hf_tokenizer_encode(const quire_hf_tokenizer* tokenizer, const char* text, size_t size,
                              bool add_special_tokens, uint32_t first_mark, quire_hf_ids* out, quire_hf_bytes* error);

/* How many different marks this tokenizer uses: code points first_mark .. first_mark + count - 1. */
uint32_t quire_hf_tokenizer_mark_count(const quire_hf_tokenizer* tokenizer);

/* The text with one character of each special token's text in it replaced by a mark. The caller chooses the range of
 * marks: code points that occur nowhere in the text that is encoded later. */
int quire_hf_tokenizer_mark(const quire_hf_tokenizer* tokenizer, const char* text, size_t size, uint32_t first_mark,
                            quire_hf_bytes* out, quire_hf_bytes* error);
/* The text with the marked characters put back. */
int quire_hf_tokenizer_unmark(const quire_hf_tokenizer* tokenizer, const char* text, size_t size, uint32_t first_mark,
                              quire_hf_bytes* out, quire_hf_bytes* error);

/* The text of token ids, by the tokenizer's decoder. Ids at or above the vocabulary's size are refused. */
int quire_hf_tokenizer_decode(const quire_hf_tokenizer* tokenizer, const uint32_t* ids, size_t size,
                              bool skip_special_tokens, quire_hf_bytes* out, quire_hf_bytes* error);

/* The vocabulary's string of an id; false (and nothing written) where it has none. */
bool quire_hf_tokenizer_id_to_token(const quire_hf_tokenizer* tokenizer, uint32_t id, quire_hf_bytes* out);
/* The id of a vocabulary string; false (and nothing written) where there is none. */
bool quire_hf_tokenizer_token_to_id(const quire_hf_tokenizer* tokenizer, const char* token, size_t size, uint32_t* out);
/* True for added tokens that are special. */
bool quire_hf_tokenizer_is_special(const quire_hf_tokenizer* tokenizer, uint32_t id);
/* One more than the highest id, added tokens included. */
uint32_t quire_hf_tokenizer_vocab_size(const quire_hf_tokenizer* tokenizer);

/* ---- Chat templates ---- */

typedef struct quire_hf_template quire_hf_template;

/* Compiles a template of at most 1 MB; a message about a syntax error names the line. */
int quire_hf_template_new(const char* source, size_t size, quire_hf_template** out, quire_hf_bytes* error);
void quire_hf_template_free(quire_hf_template* chat_template);

/* Renders with a JSON object (at most 32 MB, nested at most 100 deep) whose keys become the template's variables, their
 * order kept. The work is limited in proportion to the size of the context, the output to 64 MB. */
int quire_hf_template_render(const quire_hf_template* chat_template, const char* context, size_t size,
                             quire_hf_bytes* out, quire_hf_bytes* error);

/* ---- Repositories of a hub ----
 *
 * Files are kept in huggingface_hub's cache, in its layout and under its locks, so that Python's programs and this one
 * find each other's files. The environment is read as huggingface_hub reads it: HF_HOME, HF_HUB_CACHE, HF_TOKEN,
 * HF_TOKEN_PATH, HF_ENDPOINT, HF_HUB_OFFLINE; beside them HTTPS_PROXY and NO_PROXY, SSL_CERT_FILE. The token is sent to
 * the endpoint only, not to where it redirects. */

typedef struct quire_hf_repository quire_hf_repository;

/* Empty texts: main for the revision, the environment's cache and token. */
typedef struct quire_hf_hub_options {
  quire_hf_text repository; /* ORG/NAME */
  quire_hf_text revision;   /* a branch, tag or commit */
  quire_hf_text cache;      /* the folder with models--ORG--NAME */
  quire_hf_text token;
} quire_hf_hub_options;

/* Asks the hub what the repository has at the revision. Where the hub is not reached, or must not be asked
 * (HF_HUB_OFFLINE), the cache's last revision of that name is taken. */
int quire_hf_repository_open(const quire_hf_hub_options* options, quire_hf_repository** out, quire_hf_bytes* error);
void quire_hf_repository_free(quire_hf_repository* repository);

/* A JSON object: commit; folder, the snapshot's; files, a list of name and size (in bytes, or null); note, why the hub
 * was not asked (empty where it was); offline, whether it must not be. */
int quire_hf_repository_describe(const quire_hf_repository* repository, quire_hf_bytes* out, quire_hf_bytes* error);

/* The path of a listed file in the snapshot's folder, downloaded first where it is missing there. `progress` (or NULL)
 * is called by this thread with the bytes of the file that are there, at least ten times a second but for the time of
 * connecting; where it returns false, the call ends, and a later one, of any program, goes on from what has come. */
int quire_hf_repository_fetch(const quire_hf_repository* repository, const char* name, size_t size,
                              bool (*progress)(void* context, uint64_t bytes), void* context, quire_hf_bytes* out,
                              quire_hf_bytes* error);

/* Makes the revision's commit the one that the cache gives without the hub. To be called once the files that are wanted
 * are there. */
int quire_hf_repository_settle(const quire_hf_repository* repository, quire_hf_bytes* error);

#ifdef __cplusplus
}
#endif

#endif
