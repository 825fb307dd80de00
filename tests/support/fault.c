/* Wraps the functions that allocate memory, so that a test can make the n-th call fail, so that reading or writing
 * beyond the end of an allocation ends the program, and so that a program fails where memory is left. */
#include "support/fault.h"

#include <malloc.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static _Atomic int64_t left; /* 0: off; 1: the next one fails, and stays so unless is_once */
static _Atomic int is_once;
static _Atomic int happened;
static _Atomic size_t bytes;
static _Atomic int counts_arenas;
static _Atomic int64_t living;

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

void fault_in_arenas(int counts)
{
    atomic_store(&counts_arenas, counts);
}

int fault_happened(void)
{
    return atomic_load(&happened);
}

int64_t fault_living(void)
{
    return atomic_load(&living);
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
void __real_free(void *p);
__attribute__((weak)) void *__real_md_arena_alloc(void *arena, size_t n); /* some programs lack it */
void *__wrap_malloc(size_t n);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_realloc(void *p, size_t n);
void *__wrap_aligned_alloc(size_t alignment, size_t n);
char *__wrap_strdup(const char *text);
char *__wrap_strndup(const char *text, size_t n);
void __wrap_free(void *p);
void *__wrap_md_arena_alloc(void *arena, size_t n);

/* ---- Fences: what follows an allocation keeps a pattern, and at the very end its length */

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { FENCE = 0 }; /* a sanitizer sees more */
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
enum { FENCE = 0 };
#else
enum { FENCE = 32 };
#endif
#else
enum { FENCE = 32 };
#endif
enum { PATTERN = 0xA7 };
static const uint64_t KEY = UINT64_C(0x6d64fe6ce0000000) << 8; /* lengths are below 2^37 */

static void *fenced(void *p, size_t n)
{
    if (!p || FENCE == 0 || n >> 37)
        return p;
    const size_t all = malloc_usable_size(p);
    const uint64_t length = KEY | n;
    memset((char *)p + n, PATTERN, all - n - sizeof length);
    memcpy((char *)p + all - sizeof length, &length, sizeof length);
    atomic_fetch_add_explicit(&living, 1, memory_order_relaxed);
    return p;
}

/* Memory that the C library or another library allocated has no fence. */
static void check_fence(void *p)
{
    const size_t all = p && FENCE > 0 ? malloc_usable_size(p) : 0;
    uint64_t length;
    if (all < sizeof length)
        return;
    memcpy(&length, (char *)p + all - sizeof length, sizeof length);
    const size_t n = length & ~(~UINT64_C(0) << 37);
    if (length - n != KEY || n > all - sizeof length)
        return;
    for (size_t i = n; i < all - sizeof length; i++)
        if (((unsigned char *)p)[i] != PATTERN) {
            fprintf(stderr, "%zu bytes were allocated, and byte %zu was written\n", n, i);
            abort();
        }
    memset((char *)p + all - sizeof length, 0, sizeof length); /* the next owner may have no fence */
    atomic_fetch_sub_explicit(&living, 1, memory_order_relaxed);
}

/* ---- Pages: the first allocations end at a page that nobody may read, and nobody may read them once they are freed */

enum { SLOTS = 12288, ARENA_SLOTS = 4096, PAGE = 4096, SLOT = 17 * PAGE, UNSET = 0x5A };
static struct {
    char *first; /* NULL: there are none */
    _Atomic size_t n, n_in_arenas; /* these from the end on */
    size_t bytes[SLOTS + ARENA_SLOTS];
} pages;

static void reserve_pages(void)
{
    const char *const preloaded = getenv("LD_PRELOAD");
    if (FENCE == 0 || sysconf(_SC_PAGESIZE) != PAGE || (preloaded && strstr(preloaded, "vgpreload"))) /* Valgrind */
        return;
    void *const p =
        mmap(NULL, (size_t)(SLOTS + ARENA_SLOTS) * SLOT, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    pages.first = p == MAP_FAILED ? NULL : p;
}

/* The slot of an address; -1: it is of none. */
static int64_t slot_of(const void *p)
{
    const uintptr_t at = (uintptr_t)p - (uintptr_t)pages.first;
    return pages.first && at < (uintptr_t)(SLOTS + ARENA_SLOTS) * SLOT ? (int64_t)(at / SLOT) : -1;
}

/* NULL: the slot is too small. The memory is 0. */
static void *open_slot(size_t i, size_t n)
{
    const size_t at_least = n ? (n + 15) / 16 * 16 : 16; /* aligned as malloc does it: up to 15 bytes follow */
    if (at_least > SLOT - PAGE)
        return NULL;
    char *const end = pages.first + (i + 1) * SLOT - PAGE;
    const size_t used = (at_least + PAGE - 1) / PAGE * PAGE;
    if (mprotect(end - used, used, PROT_READ | PROT_WRITE) != 0)
        return NULL;
    pages.bytes[i] = n;
    memset(end - at_least + n, PATTERN, at_least - n);
    return end - at_least;
}

/* NULL: no slot is left, or it is too small. */
static void *take_slot(size_t n)
{
    const size_t i = pages.first && n <= SLOT - PAGE ? atomic_fetch_add(&pages.n, 1) : SLOTS;
    void *const p = i < SLOTS ? open_slot(i, n) : NULL;
    if (p)
        atomic_fetch_add_explicit(&living, 1, memory_order_relaxed);
    return p;
}

static void give_slot(void *p, int64_t slot)
{
    const size_t n = pages.bytes[slot];
    char *const end = pages.first + (slot + 1) * SLOT - PAGE;
    for (const char *c = (const char *)p + n; c < end; c++)
        if ((unsigned char)*c != PATTERN) {
            fprintf(stderr, "%zu bytes were allocated, and byte %zu was written\n", n, (size_t)(c - (char *)p));
            abort();
        }
    (void)madvise(end - (SLOT - PAGE), SLOT - PAGE, MADV_DONTNEED);
    (void)mprotect(end - (SLOT - PAGE), SLOT - PAGE, PROT_NONE);
    atomic_fetch_sub_explicit(&living, 1, memory_order_relaxed);
}

/* ---- The functions */

static void *allocate(size_t n)
{
    void *const p = take_slot(n);
    return p ? memset(p, UNSET, n) : fenced(__real_malloc(n + FENCE), n);
}

static void release(void *p)
{
    const int64_t slot = slot_of(p);
    if (slot >= 0) {
        give_slot(p, slot);
        return;
    }
    check_fence(p);
    __real_free(p);
}

void *__wrap_malloc(size_t n)
{
    return is_refused(n) ? NULL : allocate(n);
}

void *__wrap_calloc(size_t n, size_t size)
{
    size_t all;
    if (is_refused(n * size) || __builtin_mul_overflow(n, size, &all))
        return NULL;
    void *const p = take_slot(all);
    return p ? p : fenced(__real_calloc(1, all + FENCE), all);
}

void *__wrap_realloc(void *p, size_t n)
{
    if (is_refused(n))
        return NULL;
    const int64_t slot = slot_of(p);
    if (!p || slot >= 0) {
        void *const to = allocate(n);
        if (to && p) {
            memcpy(to, p, n < pages.bytes[slot] ? n : pages.bytes[slot]);
            give_slot(p, slot);
        }
        return to;
    }
    check_fence(p);
    void *const moved = __real_realloc(p, n + FENCE);
    return moved ? fenced(moved, n) : NULL;
}

void *__wrap_aligned_alloc(size_t alignment, size_t n)
{
    return is_refused(n) ? NULL : fenced(__real_aligned_alloc(alignment, n + FENCE), n);
}

static char *copy_of(const char *text, size_t n)
{
    char *const copy = is_refused(n) ? NULL : allocate(n + 1);
    if (copy) {
        memcpy(copy, text, n);
        copy[n] = 0;
    }
    return copy;
}

char *__wrap_strdup(const char *text)
{
    return copy_of(text, strlen(text));
}

char *__wrap_strndup(const char *text, size_t n)
{
    return copy_of(text, strnlen(text, n));
}

void __wrap_free(void *p)
{
    if (p)
        release(p);
}

void *__wrap_md_arena_alloc(void *arena, size_t n)
{
    void *const p = atomic_load(&counts_arenas) && is_refused(0) ? NULL : __real_md_arena_alloc(arena, n);
    const size_t i = p && pages.first && n <= SLOT - PAGE ? atomic_fetch_add(&pages.n_in_arenas, 1) : ARENA_SLOTS;
    void *const apart = i < ARENA_SLOTS ? open_slot(SLOTS + i, n) : NULL;
    return apart ? apart : p;
}

/* ---- The end */

static _Atomic int may_leave; /* also where the program failed */
static pid_t owner; /* children that a test forks have their parent's memory */

void fault_may_leave_memory(void)
{
    atomic_store(&may_leave, 1);
}

/* Where there is a GPU more runs, of which it is not known that all is freed: TEST_GIVEN_BACK=1 looks there, too. */
static int has_gpu(void)
{
    return access("/dev/nvidiactl", F_OK) == 0 && !getenv("TEST_GIVEN_BACK");
}

static void note_status(int status, void *unused)
{
    (void)unused;
    may_leave |= status != 0;
}

__attribute__((constructor)) static void begin(void)
{
    owner = getpid();
    reserve_pages();
    may_leave |= on_exit(note_status, NULL) != 0 || has_gpu();
}

/* The last destructor: the library's own have given back what a process keeps. */
__attribute__((destructor(101))) static void end(void)
{
    const int64_t n = fault_living();
    if (n == 0 || may_leave || getpid() != owner)
        return;
    fprintf(stderr, "%lld allocations were not freed\n", (long long)n);
    (void)fflush(NULL);
    _exit(1);
}
