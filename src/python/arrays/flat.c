/* Tensors of any shape as one axis each, for formulas that look at single elements. */
#include "python/arrays/exchange.h"

static bool is_same_layout(const md_tensor *a, const md_tensor *b)
{
    if (a->rank != b->rank)
        return false;
    for (int32_t x = 0; x < a->rank; x++)
        if (a->size[x] != b->size[x] || (a->size[x] > 1 && a->stride[x] != b->stride[x]))
            return false;
    return true;
}

/* The number of elements if they lie without gaps, in whatever order of the axes; else -1. */
static int64_t dense_count(const md_tensor *t)
{
    int64_t count = 1, found = 1;
    bool is_taken[MD_MAX_RANK] = {false};
    for (int32_t x = 0; x < t->rank; x++)
        if (__builtin_mul_overflow(count, t->size[x], &count))
            return -1;
    if (count == 0)
        return 0;
    for (int32_t left = t->rank; left > 0; left--) {
        int32_t next = -1;
        for (int32_t x = 0; x < t->rank && next < 0; x++)
            if (!is_taken[x] && (t->size[x] == 1 || t->stride[x] == found))
                next = x;
        if (next < 0)
            return -1;
        is_taken[next] = true;
        found *= t->size[next];
    }
    return count;
}

int md_py_flatten(md_tensor *const *tensor, int32_t n, Py_ssize_t item, PyObject *error)
{
    const int64_t count = n > 0 ? dense_count(tensor[0]) : 0;
    bool is_flat = count >= 0;
    for (int32_t i = 1; i < n; i++)
        is_flat = is_flat && is_same_layout(tensor[0], tensor[i]);
    if (!is_flat) {
        PyErr_Format(error, "item %zd: flat: its tensors differ in their sizes or layouts, or have gaps", item);
        return -1;
    }
    for (int32_t i = 0; i < n; i++) {
        tensor[i]->rank = 1;
        tensor[i]->size[0] = count;
        tensor[i]->stride[0] = 1;
    }
    return 0;
}
