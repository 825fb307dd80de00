/* What libraries must load before a call: done by background jobs, once a context for each need. */
#include "build/internal.h"

#include "base/clock.h"
#include "base/status.h"
#include "base/task/jobs.h"

#include <stdlib.h>
#include <string.h>

/* One need of one library. Lives until the builder is destroyed. Guarded by the builder's lock. */
typedef struct load {
    md_bd *builder;
    const md_fa_family *family;
    md_fa_library_call call;
    md_bd_load_state state; /* NOT_LOADED while a job is queued or running */
    md_fa_answer answer;
    bool has_begun, may_load; /* the job */
} load;

/* The key in the table: families and calls that are equal as bytes. */
typedef struct load_key {
    const md_fa_family *family;
    md_fa_library_call call;
} load_key;
_Static_assert(sizeof(load_key) == sizeof(md_fa_library_call) + sizeof(void *), "a key is compared as bytes");

/* The listener looks at all shapes that wait, and a shape may wait for many loads. So it is told of the last load, and
 * now and then before. The lock is held. */
static bool is_time_to_notify(md_bd *builder)
{
    enum { PERIOD_NS = 10000000 };
    const uint64_t now = md_clock_ns();
    if (builder->n_loads > 0 && now - builder->told_ns < PERIOD_NS)
        return false;
    builder->told_ns = now;
    return true;
}

/* Once exit() has begun, libraries may be gone. */
static md_status ask_library(const load *l, bool may_load)
{
    return md_jobs_are_awaited() ? md_fail(MD_UNSUPPORTED, "the process ends")
                                 : l->family->load_library_call(l->builder->dev, &l->call, may_load);
}

/* Does the job, unless another thread has begun to. */
static void run(load *l)
{
    md_bd *builder = l->builder;
    pthread_mutex_lock(&builder->lock);
    const bool is_mine = l->state == MD_BD_NOT_LOADED && !l->has_begun, may_load = l->may_load;
    l->has_begun = l->has_begun || is_mine;
    pthread_mutex_unlock(&builder->lock);
    if (!is_mine)
        return;
    const md_status status = ask_library(l, may_load);
    if (status != MD_OK && status != MD_NOT_FOUND)
        md_log_at(builder->dev->log, MD_LOG_INFO, "%s does not serve a product, own kernels do: %s", l->family->name,
                  md_last_error());
    md_fa_answer answer = {0};
    if (l->family->library_answer && !md_jobs_are_awaited())
        answer = l->family->library_answer(builder->dev, &builder->dev->facts, &l->call);
    pthread_mutex_lock(&builder->lock);
    l->answer = answer;
    l->state = status == MD_OK ? MD_BD_LOADED : status == MD_NOT_FOUND ? MD_BD_DEFERRED : MD_BD_CANNOT_LOAD;
    builder->n_loads--;
    if (!builder->has_loaded)
        md_jobs_rest_at_exit(); /* at its first use the library registers what exit() takes down */
    builder->has_loaded = true;
    pthread_cond_broadcast(&builder->changed);
    if (is_time_to_notify(builder))
        md_bd_notify(builder);
    pthread_mutex_unlock(&builder->lock);
}

static void run_job(void *context)
{
    load *l = context;
    md_bd *builder = l->builder;
    run(l);
    pthread_mutex_lock(&builder->lock);
    md_bd_end_job(builder);
    pthread_mutex_unlock(&builder->lock);
}

/* A new need, DEFERRED; NULL if memory is short. The lock is held. */
static load *add(md_bd *builder, const load_key *key)
{
    load *l = calloc(1, sizeof *l);
    if (!l)
        return NULL;
    *l = (load){.builder = builder, .family = key->family, .call = key->call, .state = MD_BD_DEFERRED};
    if (md_table_put(builder->loads, key, sizeof *key, l, NULL) != MD_OK) {
        free(l);
        return NULL;
    }
    return l;
}

/* True if a job is to be done. The lock is held. */
static bool begin(load *l, bool may_load)
{
    if (l->state != MD_BD_DEFERRED)
        return false;
    l->state = MD_BD_NOT_LOADED;
    l->has_begun = false;
    l->may_load = may_load;
    l->builder->n_loads++;
    return true;
}

/* Loads on this thread, if no thread of the pool has begun: all of them may be waiting as this one is. */
static md_bd_load_state load_and_wait(load *l)
{
    md_bd *builder = l->builder;
    md_bd_load_state state;
    do {
        pthread_mutex_lock(&builder->lock);
        (void)begin(l, true);
        pthread_mutex_unlock(&builder->lock);
        run(l);
        pthread_mutex_lock(&builder->lock);
        while (l->state == MD_BD_NOT_LOADED)
            pthread_cond_wait(&builder->changed, &builder->lock);
        state = l->state;
        pthread_mutex_unlock(&builder->lock);
    } while (state == MD_BD_DEFERRED); /* another thread looked, but did not load */
    return state;
}

/* The state of one need. `effort`: looks only, finds out, begins to load, or waits for the load. */
static md_bd_load_state ask(md_bd *builder, const load_key *key, md_bd_load_effort effort)
{
    bool is_job = false;
    pthread_mutex_lock(&builder->lock);
    load *l = md_table_find(builder->loads, key, sizeof *key);
    if (!l && effort != MD_BD_LOAD_LOOK && (l = add(builder, key)) != NULL && effort == MD_BD_LOAD_FIND)
        is_job = begin(l, false);
    if (l && effort == MD_BD_LOAD_START)
        is_job = begin(l, true);
    const md_bd_load_state state = l ? l->state : effort == MD_BD_LOAD_LOOK ? MD_BD_NOT_LOADED : MD_BD_CANNOT_LOAD;
    if (is_job)
        builder->n_jobs++;
    pthread_mutex_unlock(&builder->lock);
    if (is_job)
        md_jobs_submit_later(md_pool_jobs(builder->dev->pool), run_job, l);
    return l && effort == MD_BD_LOAD_WAIT ? load_and_wait(l) : state;
}

/* The calls of a variant at a shape, as keys of the table; returns how many. */
static int32_t keys_of(load_key key[MD_FA_MAX_LIBRARY_CALLS], const md_bd_variant *variant, const md_kn_shape *shape)
{
    md_fa_library_call call[MD_FA_MAX_LIBRARY_CALLS];
    if (!variant->family->library_calls)
        return 0;
    memset(call, 0, sizeof call);
    const int32_t n = variant->family->library_calls(call, &variant->target, &variant->config, shape);
    memset(key, 0, (size_t)n * sizeof *key);
    for (int32_t i = 0; i < n; i++) {
        key[i].family = variant->family;
        key[i].call = call[i];
    }
    return n;
}

md_fa_answer md_bd_variant_answer(const md_bd_variant *variant, const md_kn_shape *shape)
{
    load_key key[MD_FA_MAX_LIBRARY_CALLS];
    const int32_t n = keys_of(key, variant, shape);
    md_fa_answer sum = {0};
    bool is_known = n > 0;
    pthread_mutex_lock(&variant->builder->lock);
    for (int32_t i = 0; i < n; i++) {
        const load *l = md_table_find(variant->builder->loads, &key[i], sizeof key[i]);
        const md_fa_answer answer = l ? l->answer : (md_fa_answer){0}, before = sum;
        sum = i == 0 ? answer : sum; /* reports show the first call */
        sum.us = before.us + answer.us;
        sum.slices = MD_MAX(before.slices, answer.slices);
        is_known = is_known && answer.us > 0.0;
    }
    pthread_mutex_unlock(&variant->builder->lock);
    sum.us = is_known ? sum.us : 0.0;
    return sum;
}

md_bd_load_state md_bd_variant_load(const md_bd_variant *variant, const md_kn_shape *shape, md_bd_load_effort effort)
{
    load_key key[MD_FA_MAX_LIBRARY_CALLS];
    md_bd_load_state worst = MD_BD_LOADED;
    const int32_t n = keys_of(key, variant, shape);
    for (int32_t i = 0; i < n; i++) {
        const md_bd_load_state state = ask(variant->builder, &key[i], effort);
        worst = MD_MAX(worst, state);
    }
    return worst;
}

void md_bd_wait_loads(md_bd *builder)
{
    pthread_mutex_lock(&builder->lock);
    while (builder->n_loads > 0)
        pthread_cond_wait(&builder->changed, &builder->lock);
    pthread_mutex_unlock(&builder->lock);
}

static void lose(void *user, const void *key, size_t n_bytes, void *value)
{
    (void)user, (void)key, (void)n_bytes;
    load *l = value;
    if (l->state == MD_BD_NOT_LOADED || l->state == MD_BD_DEFERRED)
        l->state = MD_BD_CANNOT_LOAD;
}

void md_bd_lose_loads(md_bd *builder)
{
    md_table_each(builder->loads, lose, NULL);
}
