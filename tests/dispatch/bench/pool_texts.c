/* How many kernel texts the default pools of the catalogue have, and how many of them are shared: an upper bound for
 * what sharing saves. On an assumed H200 and on this host; nothing is compiled. Run by hand. */
#include "base/status.h"
#include "dispatch/create.h"
#include "dispatch/support/sim_world.h"
#include "expr/catalogue.h"

#include <stdio.h>

static double price(void *user, const char *variant, const md_kn_call *call)
{
    (void)user, (void)variant, (void)call;
    return 1.0;
}

/* All ops of the catalogue in one context. */
static void count(const char *title, const md_dev_facts *facts, md_dtype dtype)
{
    sim_world w;
    sim_world_open(&w, (sim_device_options){.facts = facts, .price = price});
    md_ds_op *op[128] = {NULL};
    for (int32_t i = 0; md_catalogue_at(i) && i < 128; i++) {
        const md_ds_op_options o = {.name = md_catalogue_at(i)->name,
                                    .compile.dtype = dtype,
                                    .compile.hints = "1,16,64,256,1024,4096",
                                    .compile.hints_source = "default hints",
                                    .compile.policy = {.select = MD_SELECT_MODEL},
                                    .max_shapes = 10};
        if (md_ds_op_create(&op[i], &w.runtime, md_catalogue_at(i)->formula, &o) != MD_OK)
            printf("  %s: %s\n", o.name, md_last_error());
    }
    md_bd_wait_all(w.builder);
    const md_bd_counters *c = md_bd_count(w.builder);
    printf("%s: %llu variants emitted, %llu texts compiled, %llu found\n", title, (unsigned long long)c->emitted,
           (unsigned long long)c->compiles, (unsigned long long)c->shared);
    for (int32_t i = 0; i < 128; i++)
        if (op[i])
            md_ds_op_destroy(&op[i]);
    sim_world_close(&w);
}

int main(void)
{
    md_dev_facts cuda, host = {0};
    md_pool *pool = NULL;
    md_dev *dev = NULL;
    if (md_dev_cuda_assume(&cuda, 90) != MD_OK || md_pool_create(&pool, 1) != MD_OK ||
        md_dev_open(&dev, &(md_dev_options){.device = "host", .pool = pool}) != MD_OK)
        return fprintf(stderr, "%s\n", md_last_error()), 1;
    host = dev->facts;
    count("cuda f32", &cuda, MD_F32);
    count("cuda bf16", &cuda, MD_BF16);
    count("host f32", &host, MD_F32);
    md_dev_close(&dev);
    md_pool_destroy(&pool);
    return 0;
}
