/* md_agree, with an exchange that Python makes. */
#include "python/state.h"

#include <md/md.h>
#include <stdio.h>
#include <string.h>

typedef struct caller {
    PyObject *gather; /* (bytes, seconds) -> the bytes of all ranks */
    int32_t n_ranks;
} caller;

/* The text of an exception, which stays the caller's. */
static void say_why(char *why, PyObject *error)
{
    PyObject *text = error ? PyObject_Str(error) : NULL, *bytes = text ? PyUnicode_AsUTF8String(text) : NULL;
    snprintf(why, MD_WHY_BYTES, "%.250s", bytes ? PyBytes_AsString(bytes) : "the exchange failed");
    Py_XDECREF(bytes);
    Py_XDECREF(text);
    PyErr_Clear();
}

/* A md_exchange.gather: takes the GIL. */
static int32_t gather(void *user, void *all, const void *mine, size_t n_bytes, double seconds, char *why)
{
    caller *c = user;
    const PyGILState_STATE gil = PyGILState_Ensure();
    PyObject *result = PyObject_CallFunction(c->gather, "y#d", (const char *)mine, (Py_ssize_t)n_bytes, seconds);
    char *bytes = NULL;
    Py_ssize_t n = 0;
    const bool is_good =
        result && PyBytes_AsStringAndSize(result, &bytes, &n) == 0 && (size_t)n == n_bytes * (size_t)c->n_ranks;
    if (is_good) {
        memcpy(all, bytes, (size_t)n);
    } else if (PyErr_Occurred()) {
        PyObject *type, *value, *trace;
        PyErr_Fetch(&type, &value, &trace);
        PyErr_NormalizeException(&type, &value, &trace);
        say_why(why, value);
        Py_XDECREF(value);
        Py_XDECREF(type);
        Py_XDECREF(trace);
    } else {
        snprintf(why, MD_WHY_BYTES, "the exchange gave %lld bytes back, not %lld from each of %d ranks", (long long)n,
                 (long long)n_bytes, (int)c->n_ranks);
    }
    Py_XDECREF(result);
    PyGILState_Release(gil);
    return is_good ? 0 : 1;
}

static PyObject *agreement_dict(const md_agreement *found)
{
    char hex[40];
    snprintf(hex, sizeof hex, "%016llx%016llx", (unsigned long long)found->digest[0],
             (unsigned long long)found->digest[1]);
    return Py_BuildValue("{s:s,s:i,s:L,s:L,s:L,s:L,s:i,s:s}", "digest", hex, "kinds", (int)found->n_kinds, "shapes",
                         (long long)found->n_shapes, "disputed", (long long)found->n_disputed, "changed",
                         (long long)found->n_changed, "vetoed", (long long)found->n_vetoed, "differing",
                         (int)found->differing, "difference", found->difference);
}

PyObject *md_py_agree(PyObject *module, PyObject *args)
{
    md_py_state *state = PyModule_GetState(module);
    const char *device;
    int rank, n_ranks;
    double seconds;
    caller c = {0};
    md_agreement found = {0};
    md_py_dl_device d;
    md_status status;
    if (!PyArg_ParseTuple(args, "siidO", &device, &rank, &n_ranks, &seconds, &c.gather) ||
        md_py_device_parse(&d, state, device) < 0)
        return NULL;
    md_context *context = md_py_context_of(state, d);
    if (!context)
        return NULL;
    c.n_ranks = n_ranks;
    const md_exchange exchange = {.rank = rank, .n_ranks = n_ranks, .seconds = seconds, .gather = gather, .user = &c};
    Py_BEGIN_ALLOW_THREADS status = md_agree(&found, context, &exchange);
    Py_END_ALLOW_THREADS return status == MD_OK ? agreement_dict(&found) : md_py_raise(state, status);
}
