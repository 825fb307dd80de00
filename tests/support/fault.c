/* Wraps the functions that allocate memory, so that a test can make the n-th call fail. */
#include "support/fault.h"

#include <stdatomic.h>
#include <stddef.h>
#include <string.h>

static _Atomic int64_t left; /* 0: off; 1: the next one fails, and stays so unless is_once */
static _Atomic int is_once;
static _Atomic int happened;
static _Atomic size_t bytes;

void fault_after(int64_t n)
{
    atomic_store(&bytes, 0);
    atomic_store(&happened, 0);
    atomic_store(&is_once, 0);
    atomic_store(&left, n);
}

void fault_once(int64_t n)
{
    fault_after(0);
    atomic_store(&is_once, 1);
    atomic_store(&left, n);
}

int fault_happened(void)
{
    return atomic_load(&happened);
}

size_t fault_bytes(void)
{
    return atomic_load(&bytes);
}

static int is_refused(size_t n_bytes)
{
    atomic_fetch_add_explicit(&bytes, n_bytes, memory_order_relaxed);
    int64_t n = atomic_load(&left);
    const int64_t floor = atomic_load(&is_once) ? 0 : 1;
    while (n > floor && !atomic_compare_exchange_weak(&left, &n, n - 1))
        ;
    if (n == 1)
        atomic_store(&happened, 1);
    return n == 1;
}

void *__real_malloc(size_t n);
void *__real_calloc(size_t n, size_t size);
void *__real_realloc(void *p, size_t n);
void *__real_aligned_alloc(size_t alignment, size_t n);
void *__wrap_malloc(size_t n);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_realloc(void *p, size_t n);
void *__wrap_aligned_alloc(size_t alignment, size_t n);

char *__real_strdup(const char *text);
char *__real_strndup(const char *text, size_t n);
char *__wrap_strdup(const char *text);
char *__wrap_strndup(const char *text, size_t n);

void *__wrap_malloc(size_t n)
{
    return is_refused(n) ? NULL : __real_malloc(n);
}

void *__wrap_calloc(size_t n, size_t size)
{
    return is_refused(n * size) ? NULL : __real_calloc(n, size);
}

void *__wrap_realloc(void *p, size_t n)
{
    return is_refused(n) ? NULL : __real_realloc(p, n);
}

void *__wrap_aligned_alloc(size_t alignment, size_t n)
{
    return is_refused(n) ? NULL : __real_aligned_alloc(alignment, n);
}

char *__wrap_strdup(const char *text)
{
    return is_refused(strlen(text)) ? NULL : __real_strdup(text);
}

char *__wrap_strndup(const char *text, size_t n)
{
    return is_refused(n) ? NULL : __real_strndup(text, n);
}
