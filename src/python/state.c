/* What all parts of the extension share: errors of the library as exceptions, its texts as str, a context a device. */
#include "python/state.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

PyObject *md_py_raise(const md_py_state *state, md_status status)
{
    PyObject *kind = state->error;
    if (status == MD_OUT_OF_MEMORY)
        kind = PyExc_MemoryError;
    else if (status == MD_INVALID_ARGUMENT || status == MD_NOT_FOUND)
        kind = state->argument_error;
    else if (status == MD_UNSUPPORTED)
        kind = state->unsupported;
    else if (status == MD_DEVICE || status == MD_COMPILE)
        kind = state->device_error;
    PyErr_SetString(kind, md_last_error());
    return NULL;
}

/* ---- Text of the library */

int md_py_text_add(void *user, const char *text, size_t n_bytes)
{
    md_py_text *t = user;
    char *grown = realloc(t->text, t->size + n_bytes + 1);
    if (!grown)
        return 1;
    memcpy(grown + t->size, text, n_bytes);
    t->text = grown;
    t->size += n_bytes;
    t->text[t->size] = 0;
    return 0;
}

PyObject *md_py_text_take(md_py_text *text, const md_py_state *state, md_status status)
{
    PyObject *out = NULL;
    if (status != MD_OK)
        md_py_raise(state, status);
    else
        out = PyUnicode_DecodeUTF8(text->text ? text->text : "", (Py_ssize_t)text->size, "replace");
    free(text->text);
    text->text = NULL;
    text->size = 0;
    return out;
}

/* ---- Contexts */

int md_py_device_parse(md_py_dl_device *out, const md_py_state *state, const char *name)
{
    int id = 0, end = 0;
    if (!strcmp(name, "host") || !strcmp(name, "cpu"))
        *out = (md_py_dl_device){MD_PY_CPU, 0};
    else if (!strcmp(name, "cuda"))
        *out = (md_py_dl_device){MD_PY_CUDA, 0};
    else if (sscanf(name, "cuda:%d%n", &id, &end) == 1 && !name[end] && id >= 0)
        *out = (md_py_dl_device){MD_PY_CUDA, id};
    else {
        PyErr_Format(state->argument_error, "device '%s': expected host, cuda or cuda:N", name);
        return -1;
    }
    return 0;
}

static md_context *find_context(const md_py_state *state, md_py_dl_device device)
{
    for (int i = 0; i < state->n_contexts; i++)
        if (state->context[i].device.type == device.type && state->context[i].device.id == device.id)
            return state->context[i].context;
    return NULL;
}

/* One thread makes a context, without the GIL; others wait. The child of a fork does not: it lacks that thread. */
static md_context *wait_for_context(const md_py_state *state, md_py_dl_device device)
{
    const struct timespec moment = {.tv_nsec = 1000000};
    md_context *found;
    while (!(found = find_context(state, device)) && state->maker == getpid()) {
        Py_BEGIN_ALLOW_THREADS nanosleep(&moment, NULL);
        Py_END_ALLOW_THREADS
    }
    return found;
}

md_context *md_py_context_of(md_py_state *state, md_py_dl_device device)
{
    char name[32] = "host";
    md_context *made = wait_for_context(state, device);
    md_status status;
    if (made)
        return made;
    if (device.type == MD_PY_CUDA)
        snprintf(name, sizeof name, "cuda:%d", device.id);
    else if (device.type != MD_PY_CPU) {
        PyErr_Format(state->unsupported, "there is no device for DLPack's device type %d", device.type);
        return NULL;
    }
    if (state->n_contexts == MD_PY_CONTEXTS) {
        PyErr_SetString(state->unsupported, "too many devices");
        return NULL;
    }
    md_context_options options = {.device = name};
    state->maker = getpid();
    if (device.type == MD_PY_CUDA)
        md_py_torch_give_memory(&options, &state->exchange.torch_memory);
    Py_BEGIN_ALLOW_THREADS status = md_context_create(&made, &options);
    Py_END_ALLOW_THREADS state->maker = 0;
    if (status != MD_OK) {
        md_py_raise(state, status);
        return NULL;
    }
    state->context[state->n_contexts++] = (md_py_context){device, made};
    return made;
}
