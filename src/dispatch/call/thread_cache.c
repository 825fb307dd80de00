/* Finds, makes and reuses the thread caches of a context. */
#include "dispatch/call/thread_cache.h"

#include <stdlib.h>

_Thread_local md_ds_current md_ds_current_thread MD_DS_TLS;

void md_ds_thread_leave(void *user)
{
    md_ds_thread *t = user;
    if (md_ds_current_thread.thread == t) {
        md_ds_current_thread.runtime = 0;
        md_ds_current_thread.thread = NULL;
    }
    atomic_store_explicit(&t->is_idle, true, memory_order_release);
}

static void free_thread(md_ds_thread *thread)
{
    for (int32_t i = 0; i < MD_DS_CACHE_SETS; i++)
        for (int32_t way = 0; way < MD_DS_CACHE_WAYS; way++)
            if (thread->cached[i][way].entry != md_ds_thread_entry_in(&thread->place[i][way]))
                free(thread->cached[i][way].entry);
    free(thread->memory);
}

void md_ds_threads_free(md_ds_runtime *runtime)
{
    while (runtime->threads) {
        md_ds_thread *t = runtime->threads;
        runtime->threads = t->next;
        free_thread(t);
    }
}

/* A megabyte, most of which is never touched: calloc gets zeroed pages that the system provides when needed. */
static md_ds_thread *make(void)
{
    enum { PAGE = 4096 };
    char *memory = calloc(1, sizeof(md_ds_thread) + PAGE);
    if (!memory)
        return NULL;
    md_ds_thread *t = (md_ds_thread *)(void *)(memory + (PAGE - (uintptr_t)memory % PAGE));
    t->memory = memory;
    return t;
}

static md_ds_thread *thread_of(md_ds_runtime *runtime)
{
    md_ds_thread *t = runtime->has_thread_key ? pthread_getspecific(runtime->thread_key) : NULL;
    if (t || !runtime->has_thread_key)
        return t;
    pthread_mutex_lock(&runtime->lock_of_threads);
    for (t = runtime->threads; t && !atomic_load_explicit(&t->is_idle, memory_order_acquire); t = t->next)
        ;
    if (t) {
        atomic_store_explicit(&t->is_idle, false, memory_order_relaxed);
    } else if ((t = make()) != NULL) {
        t->number = runtime->threads ? runtime->threads->number + 1 : 0;
        t->next = runtime->threads;
        runtime->threads = t;
    }
    pthread_mutex_unlock(&runtime->lock_of_threads);
    if (t && pthread_setspecific(runtime->thread_key, t) != 0) {
        atomic_store_explicit(&t->is_idle, true, memory_order_release);
        t = NULL;
    }
    return t;
}

md_ds_thread *md_ds_thread_find(md_ds_runtime *runtime)
{
    if (md_ds_current_thread.runtime != runtime->id) {
        md_ds_thread *t = thread_of(runtime);
        if (!t)
            return NULL;
        md_ds_current_thread.runtime = runtime->id;
        md_ds_current_thread.thread = t;
    }
    return md_ds_current_thread.thread;
}
