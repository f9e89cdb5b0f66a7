/* libquire_mpi.so: see mpi_module.h. Built only where mpi.h is found. */
#include "distributed/mpi/mpi_module.h"

#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

static int start(void) {
  int provided = 0;
  int initialized = 0;
  int code = MPI_Initialized(&initialized);
  if (code == MPI_SUCCESS && !initialized) code = MPI_Init_thread(NULL, NULL, MPI_THREAD_SERIALIZED, &provided);
  if (code == MPI_SUCCESS) code = MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  return code;
}

static void finish(void) {
  int finalized = 0;
  if (MPI_Finalized(&finalized) == MPI_SUCCESS && !finalized) MPI_Finalize();
}

static int rank(void) {
  int value = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &value);
  return value;
}

static int size(void) {
  int value = 1;
  MPI_Comm_size(MPI_COMM_WORLD, &value);
  return value;
}

/* Keeps the request of a call that succeeded. */
static int keep(int code, MPI_Request* request, void** kept) {
  if (code != MPI_SUCCESS) {
    free(request);
    request = NULL;
  }
  *kept = request;
  return code;
}

static int send(const void* data, int bytes, int destination, int tag, void** request) {
  MPI_Request* const handle = malloc(sizeof(MPI_Request));
  if (handle == NULL) return MPI_ERR_NO_MEM;
  return keep(MPI_Isend(data, bytes, MPI_BYTE, destination, tag, MPI_COMM_WORLD, handle), handle, request);
}

static int receive(void* data, int bytes, int source, int tag, void** request) {
  MPI_Request* const handle = malloc(sizeof(MPI_Request));
  if (handle == NULL) return MPI_ERR_NO_MEM;
  return keep(MPI_Irecv(data, bytes, MPI_BYTE, source, tag, MPI_COMM_WORLD, handle), handle, request);
}

static int test(void** request, int* done, int* bytes) {
  MPI_Status status;
  const int code = MPI_Test(*request, done, &status);
  if (code != MPI_SUCCESS) return code;
  if (*done) {
    if (MPI_Get_count(&status, MPI_BYTE, bytes) != MPI_SUCCESS) *bytes = 0;
    free(*request);
    *request = NULL;
  }
  return MPI_SUCCESS;
}

static void describe(int code, char* text, size_t size_of_text) {
  char message[MPI_MAX_ERROR_STRING] = "";
  int length = 0;
  if (MPI_Error_string(code, message, &length) != MPI_SUCCESS) length = 0;
  snprintf(text, size_of_text, "%.*s", length, message);
}

__attribute__((visibility("default"))) const quire_mpi_table* quire_mpi_get_table(void) {
  static const quire_mpi_table table = {
      QUIRE_MPI_TABLE_VERSION, start, finish, rank, size, send, receive, test, describe};
  return &table;
}
