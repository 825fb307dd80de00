/* What libraries must load before a call: done by background jobs, once a context for each need. */
#include "build/internal.h"

#include "base/status.h"

#include <stdlib.h>
#include <string.h>

/* One need of one library. Lives until the builder is destroyed. Guarded by the builder's lock. */
typedef struct load {
    md_bd *builder;
    const md_fa_family *family;
    md_fa_library_call call;
    md_bd_load_state state; /* NOT_LOADED while it is queued or running */
    bool has_begun;
} load;

/* The key in the table: families and calls that are equal as bytes. */
typedef struct load_key {
    const md_fa_family *family;
    md_fa_library_call call;
} load_key;
_Static_assert(sizeof(load_key) == sizeof(md_fa_library_call) + sizeof(void *), "a key is compared as bytes");

/* Loads, unless another thread has begun to. */
static void run(load *l)
{
    md_bd *builder = l->builder;
    pthread_mutex_lock(&builder->lock);
    const bool is_mine = !l->has_begun;
    l->has_begun = true;
    pthread_mutex_unlock(&builder->lock);
    if (!is_mine)
        return;
    const md_status status = l->family->load_library_call(builder->dev, &l->call);
    if (status != MD_OK)
        md_log_at(builder->dev->log, MD_LOG_INFO, "%s does not serve a product, own kernels do: %s", l->family->name,
                  md_last_error());
    pthread_mutex_lock(&builder->lock);
    l->state = status == MD_OK ? MD_BD_LOADED : MD_BD_CANNOT_LOAD;
    builder->n_loads--;
    pthread_cond_broadcast(&builder->changed);
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

/* The need, known or new (*is_new); NULL if memory is short. The lock is held. */
static load *find(bool *is_new, md_bd *builder, const load_key *key)
{
    load *l = md_table_find(builder->loads, key, sizeof *key);
    *is_new = false;
    if (l)
        return l;
    l = calloc(1, sizeof *l);
    if (!l)
        return NULL;
    *l = (load){.builder = builder, .family = key->family, .call = key->call, .state = MD_BD_NOT_LOADED};
    if (md_table_put(builder->loads, key, sizeof *key, l, NULL) != MD_OK) {
        free(l);
        return NULL;
    }
    builder->n_loads++;
    *is_new = true;
    return l;
}

/* The state of one need. */
static md_bd_load_state ask(md_bd *builder, const load_key *key, md_bd_load_effort effort)
{
    bool is_new = false;
    pthread_mutex_lock(&builder->lock);
    load *l = effort == MD_BD_LOAD_LOOK ? md_table_find(builder->loads, key, sizeof *key) : find(&is_new, builder, key);
    md_bd_load_state state = l ? l->state : effort == MD_BD_LOAD_LOOK ? MD_BD_NOT_LOADED : MD_BD_CANNOT_LOAD;
    if (is_new && effort == MD_BD_LOAD_START)
        builder->n_jobs++;
    pthread_mutex_unlock(&builder->lock);
    if (is_new && effort == MD_BD_LOAD_START)
        md_pool_submit(builder->dev->pool, run_job, l);
    if (!l || effort != MD_BD_LOAD_WAIT)
        return state;
    run(l); /* here, if no thread of the pool has begun: all of them may be waiting as this one is */
    pthread_mutex_lock(&builder->lock);
    while (l->state == MD_BD_NOT_LOADED)
        pthread_cond_wait(&builder->changed, &builder->lock);
    state = l->state;
    pthread_mutex_unlock(&builder->lock);
    return state;
}

md_bd_load_state md_bd_variant_load(const md_bd_variant *variant, const md_kn_shape *shape, md_bd_load_effort effort)
{
    md_fa_library_call call[MD_FA_MAX_LIBRARY_CALLS];
    md_bd_load_state worst = MD_BD_LOADED;
    if (!variant->family->library_calls)
        return MD_BD_LOADED;
    memset(call, 0, sizeof call);
    const int32_t n = variant->family->library_calls(call, &variant->target, &variant->config, shape);
    for (int32_t i = 0; i < n; i++) {
        load_key key;
        memset(&key, 0, sizeof key);
        key.family = variant->family;
        key.call = call[i];
        const md_bd_load_state state = ask(variant->builder, &key, effort);
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
    if (l->state == MD_BD_NOT_LOADED)
        l->state = MD_BD_CANNOT_LOAD;
}

void md_bd_lose_loads(md_bd *builder)
{
    md_table_each(builder->loads, lose, NULL);
}
