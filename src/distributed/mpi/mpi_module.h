/* The few functions of MPI that quire uses, as a table that libquire_mpi.so gives. Plain C: the module is built against
 * the MPI that is installed where quire is built, and loaded at run time only when ranks span machines, so that quire
 * itself is neither linked to MPI nor knows its types. */
#ifndef QUIRE_DISTRIBUTED_MPI_MODULE_H_
#define QUIRE_DISTRIBUTED_MPI_MODULE_H_

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define QUIRE_MPI_TABLE_VERSION 1

/* Functions that return int give 0 or an error code for describe(). One thread at a time calls them. */
typedef struct quire_mpi_table {
  uint32_t version;
  int (*start)(void);
  void (*finish)(void);
  int (*rank)(void);
  int (*size)(void);
  /* Begin a message; `request` is for test(). The memory stays untouched until that says done. */
  int (*send)(const void* data, int bytes, int destination, int tag, void** request);
  int (*receive)(void* data, int bytes, int source, int tag, void** request);
  /* Whether a message is done (then the request is gone), and how many bytes came. */
  int (*test)(void** request, int* done, int* bytes);
  void (*describe)(int code, char* text, size_t size);
} quire_mpi_table;

/* The module's only symbol: a function of this type. */
#define QUIRE_MPI_TABLE_SYMBOL "quire_mpi_get_table"
typedef const quire_mpi_table* (*quire_mpi_get_table_function)(void);

#ifdef __cplusplus
}
#endif

#endif
