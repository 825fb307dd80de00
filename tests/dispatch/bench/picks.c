/* Prints what ops pick at random shapes, with all bits of the modelled times: picks [SHAPES]. Not a test: a change that
 * is to make choosing faster without changing a pick compares the output of before and after. */
#include "dispatch/bench/new_shapes.h"

#include "dispatch/pool/pool.h"
#include "dispatch/select/select.h"

#include <inttypes.h>

static uint32_t random_bits(uint32_t *seed)
{
    *seed = *seed * 1664525u + 1013904223u;
    return *seed >> 8;
}

/* Of any magnitude; one in three is a multiple of 64. */
static int64_t random_size(uint32_t *seed)
{
    const int64_t size = 1 + (int64_t)(random_bits(seed) % (1u << (1 + random_bits(seed) % 15)));
    return random_bits(seed) % 3 == 0 ? (size + 63) / 64 * 64 : size;
}

static uint64_t digest_of(const double *us, int32_t n)
{
    uint64_t digest = 14695981039346656037u, bits;
    for (int32_t i = 0; i < n; i++) {
        memcpy(&bits, &us[i], sizeof bits);
        digest = (digest ^ bits) * 1099511628211u;
    }
    return digest;
}

static void print_pick(md_ds_op *op, int32_t stage, const md_ds_query *query)
{
    double us[MD_DS_MAX_VARIANTS];
    md_ds_pick pick;
    const int32_t n = atomic_load(&op->stage[stage].n_variants);
    md_ds_model_us(us, op, stage, query->select_sizes, n, NULL);
    if (md_ds_select(&pick, op, stage, query) != MD_OK)
        printf(" none %016" PRIx64 "\n", digest_of(us, n));
    else
        printf(" %d %s %s %a %a %d %a %016" PRIx64 "\n", pick.source, op->stage[stage].variant[pick.variant]->name,
               pick.runner_up >= 0 ? op->stage[stage].variant[pick.runner_up]->name : "-", pick.margin, pick.us,
               pick.hint, pick.distance, digest_of(us, n));
}

static void print_picks(md_ds_op *op, const char *title, uint32_t *seed)
{
    md_ds_bound bound;
    int64_t sizes[MD_FX_MAX_DIMS] = {0};
    const int64_t size[2] = {random_size(seed), random_size(seed)};
    bind(&bound, op, size, random_bits(seed) % 4 == 0 ? 4 : 0);
    md_ds_select_sizes(sizes, op, bound.shape.size, &bound.as);
    for (int32_t s = 0; s < op->n_stages; s++) {
        const md_ds_query query = {
            .shape = &bound.shape, .select_sizes = sizes, .with_unbuilt = true, .may_load = true};
        printf("%s %" PRId64 "x%" PRId64 " %d", title, size[0], size[1], s);
        print_pick(op, s, &query);
    }
}

/* Measured times that say something else than the model. */
static void observe(md_ds_op *op, uint32_t *seed)
{
    md_ds_pool *pool = &op->stage[0];
    for (int32_t i = 0; i < 40 && pool->n_variants > 0; i++) {
        const int64_t select_sizes[MD_FX_MAX_DIMS] = {random_size(seed), random_size(seed), random_size(seed),
                                                      random_size(seed)};
        const md_ds_measured m = {(int32_t)(random_bits(seed) % (uint32_t)pool->n_variants), MD_TN_CLOCK_MEASURE,
                                  1.0 + random_bits(seed) % 1000 / 500.0, 1.5};
        md_ds_observe_at(pool, select_sizes, &m, true);
    }
}

static void print_case(new_shapes *shapes, const char *device, const new_shapes_case *c, md_select select, long n)
{
    uint32_t seed = 11;
    char title[96];
    snprintf(title, sizeof title, "%s %s %d", device, c->name, (int)select);
    md_ds_op *op = new_shapes_op(shapes, c->name, c->formula, c->dtype, NULL, select);
    for (long k = 0; k < n; k++) {
        if (k == n / 2)
            observe(op, &seed);
        print_picks(op, title, &seed);
    }
    md_ds_op_destroy(&op);
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        int32_t capability;
    } device[] = {{"sm_90", 90}, {"sm_80", 80}};
    const long n = argc > 1 ? atol(argv[1]) : 200;
    for (int32_t d = 0; d < MD_COUNT(device); d++) {
        static new_shapes shapes;
        memset(&shapes, 0, sizeof shapes);
        new_shapes_open(&shapes, device[d].capability);
        for (int32_t i = 0; i < MD_COUNT(new_shapes_cases); i++) {
            print_case(&shapes, device[d].name, &new_shapes_cases[i], MD_SELECT_MODEL, n);
            print_case(&shapes, device[d].name, &new_shapes_cases[i], MD_SELECT_DISTANCE, n / 4);
        }
        new_shapes_close(&shapes);
    }
    return 0;
}
