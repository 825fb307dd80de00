/* The state of the extension module: exceptions, contexts, and what reading arrays needs. */
#ifndef MD_PYTHON_STATE_H
#define MD_PYTHON_STATE_H

#include "python/arrays/exchange.h"

#include <sys/types.h>

enum { MD_PY_CONTEXTS = 17 }; /* the host and 16 GPUs */

typedef struct md_py_context {
    md_py_dl_device device;
    md_context *context;
} md_py_context;

/* Guarded by the GIL. Contexts live until the process ends: ops of any thread may use them. */
typedef struct md_py_state {
    PyObject *error, *formula_error, *argument_error, *device_error, *unsupported;
    PyObject *text_typed;
    md_py_exchange exchange;
    md_py_context context[MD_PY_CONTEXTS];
    int n_contexts;
    pid_t maker; /* the process in which a thread makes one, 0: none */
} md_py_state;

/** Raises the exception of a status with md_last_error's text. Returns NULL. */
PyObject *md_py_raise(const md_py_state *state, md_status status);
/** The context of a device, made on first use. NULL with an error. */
md_context *md_py_context_of(md_py_state *state, md_py_dl_device device);
/** The device of "host", "cpu", "cuda" or "cuda:N". -1 with an error. */
int md_py_device_parse(md_py_dl_device *out, const md_py_state *state, const char *name);

/* Collects text of the library: the md_write_fn and its user. */
typedef struct md_py_text {
    char *text;
    size_t size;
} md_py_text;
int md_py_text_add(void *user, const char *text, size_t n_bytes);
/** The text as str; frees it. If status is an error, raises instead. */
PyObject *md_py_text_take(md_py_text *text, const md_py_state *state, md_status status);

/* The agreement of ranks, in agree.c: agree(device, rank, ranks, seconds, gather) -> dict. */
PyObject *md_py_agree(PyObject *module, PyObject *args);

/* Tuning and wisdom: functions of the module, in tune.c. */
PyObject *md_py_tune_pieces(PyObject *module, PyObject *args);
PyObject *md_py_tune_piece(PyObject *module, PyObject *args);
PyObject *md_py_wisdom_import(PyObject *module, PyObject *args);
PyObject *md_py_wisdom_export(PyObject *module, PyObject *args);

/* Packages: functions of the module, in package.c. */
PyObject *md_py_package_write(PyObject *module, PyObject *args);
PyObject *md_py_package_open(PyObject *module, PyObject *args);
PyObject *md_py_package_describe(PyObject *module, PyObject *capsule);
PyObject *md_py_package_outputs(PyObject *module, PyObject *args);
PyObject *md_py_package_call(PyObject *module, PyObject *args);

/* Formulas over lists: functions of the module, in list.c. */
PyObject *md_py_lists(PyObject *module, PyObject *unused);
PyObject *md_py_list_read(PyObject *module, PyObject *args);
PyObject *md_py_list_make(PyObject *module, PyObject *args);
PyObject *md_py_list_call(PyObject *module, PyObject *args);

#endif
