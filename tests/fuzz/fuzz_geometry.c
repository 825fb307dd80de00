/* What families say of themselves at sizes as large as a call may have: features are numbers, and geometries count
 * without overflow. Sanitizers see an overflow itself, this program what comes of it. See random.h for arguments. */
#include "dispatch/space/points.h"
#include "fuzz/random.h"
#include "tune/tune.h"

#include "base/status.h"
#include "expr/catalogue.h"

#include <math.h>
#include <string.h>

static const char *const formulas[] = {
    "C[a,b,c,d,e,f] = X[a,b,c] * Y[d,e,f]",
    "Y[i,j] = X[j,i] + B[i]",
    "Y[b,h,q,v] = sum[k](A[b,h,q,k] * B[b,h,k,v])",
    "Y[I[i],j] += 1",
    "Y[i,j] = T[I[i],j]",
    "Y[i,o] = sum[k,l](X[i+k,l] * W[o,k,l])",
    "Y[b,n,i] = cumsum[i](X[b,n,i])",
    "S[i] = sum[j,k](X[i,j,k])",
    "S[] = sum[i,j](X[i,j])",
    "S[j] = max[i](X[i,j])",
};

enum { REFUSED = -1 }; /* a grid that no launch may have */

typedef struct subject {
    md_fa_target target;
    const md_fa_family *family;
    md_fa_config config;
    md_kn_shape shape;
    const char *formula;
} subject;

static void require(bool holds, const char *what, const subject *s)
{
    char name[MD_FA_NAME];
    if (holds)
        return;
    md_fa_name(name, s->family, &s->config);
    fprintf(stderr, "%s: %s on %s\n%s\n", what, name, s->target.facts->name, s->formula);
    for (int32_t d = 0; d < s->target.program->formula->n_dims; d++)
        fprintf(stderr, "%s = %lld\n", s->target.program->formula->dim[d].name, (long long)s->shape.size[d]);
    abort();
}

static void check_features(const subject *s)
{
    md_fa_features f = {.ops_rate = 1.0, .parallel = 1.0, .launches = 1};
    md_fa_features_of(&f, s->family, &s->target, &s->config, s->shape.size);
    const double values[] = {f.memory_bytes, f.cache_bytes, f.ops, f.transcendental, f.serial_us, f.parallel};
    for (int32_t i = 0; i < MD_COUNT(values); i++) /* the model takes what is not above 0 for none */
        require(isfinite(values[i]), "a feature", s);
    const double us = md_tn_model_us(s->target.facts, &f);
    require(us > 0 && isfinite(us), "time", s);
}

static void check_geometry(const subject *s)
{
    md_kn_geometries g = {0};
    const bool has_grid = s->target.facts->kind == MD_DEV_CUDA && !s->family->is_library;
    md_fa_geometry_of(&g, s->family, &s->target, &s->config, &s->shape);
    require(g.workspace_bytes >= 0, "workspace", s);
    for (int32_t i = 0; i < MD_KN_MAX_LAUNCHES; i++) {
        const md_kn_geometry *l = &g.launch[i];
        require(l->blocks >= 0 && l->scratch_bytes >= 0, "blocks or scratch", s);
        for (int32_t k = 0; k < 3 && l->blocks > 0 && has_grid; k++)
            require((l->grid[k] >= 1 || l->grid[0] == REFUSED) && l->grid[k] <= (k ? 65535 : INT32_MAX) &&
                        l->block[k] >= 1,
                    "grid", s);
    }
}

/* As large as calls may be: the largest sizes are halved until they are. */
static void make_sizes(int64_t size[MD_FX_MAX_DIMS], fuzz_run *f, const md_fa_target *target)
{
    const md_fx_formula *formula = target->program->formula;
    memset(size, 0, MD_FX_MAX_DIMS * sizeof *size);
    for (int32_t d = 0; d < formula->n_dims; d++)
        size[d] = formula->dim[d].size >= 0 ? formula->dim[d].size : fuzz_size(f);
    while (!(md_ds_work(target, size) <= MD_DS_MOST_WORK)) {
        int32_t largest = 0;
        for (int32_t d = 1; d < formula->n_dims; d++)
            largest = size[d] > size[largest] ? d : largest;
        size[largest] /= 2;
    }
}

static bool pick_config(subject *s, fuzz_run *f, const md_fa_family *family)
{
    md_kn_envelope envelope = {0};
    s->family = family;
    s->config = (md_fa_config){.custom = family->custom};
    for (int32_t i = 0; i < family->n_fields; i++)
        s->config.value[i] = family->field[i].value[fuzz_below(f, family->field[i].n + family->field[i].more)];
    if (!md_fa_legal(family, &s->target, &s->config, s->shape.size))
        return false;
    md_fa_envelope_of(&envelope, family, &s->target, &s->config);
    return !md_kn_envelope_miss(&envelope, &s->shape);
}

static void check_stage(fuzz_run *f, subject *s)
{
    int64_t size[MD_FX_MAX_DIMS];
    for (int32_t n = 0; n < 8; n++) {
        make_sizes(size, f, &s->target);
        md_tn_shape(&s->shape, s->target.program, size);
        if (fuzz_below(f, 2))
            s->shape.aligned = s->shape.aligned16 = 0;
        for (int32_t i = 0; md_fa_of(&s->target, i); i++) {
            if (!md_fa_applies(md_fa_of(&s->target, i), &s->target) || !pick_config(s, f, md_fa_of(&s->target, i)))
                continue;
            check_features(s);
            check_geometry(s);
        }
    }
}

static void check_formula(fuzz_run *f, const md_dev_facts *facts, const char *text)
{
    static const md_dtype dtypes[] = {MD_F32, MD_BF16, MD_F64, MD_F16};
    md_fx_formula *formula = NULL;
    md_st_program *program = NULL;
    const md_fx_options options = {.dtype = dtypes[fuzz_below(f, 4)]};
    if (md_fx_formula_create(&formula, text, &options) || md_st_split(formula) ||
        md_st_program_create(&program, formula)) {
        fprintf(stderr, "%s: %s\n", text, md_last_error());
        abort();
    }
    for (int32_t i = 0; i < program->n_stages; i++) {
        subject s = {.target = {.program = program, .stage = i, .facts = facts}, .formula = text};
        check_stage(f, &s);
    }
    md_st_program_destroy(&program);
    md_fx_formula_destroy(&formula);
}

static const char *pick_formula(fuzz_run *f)
{
    int32_t n = 0;
    while (md_catalogue_at(n))
        n++;
    const int32_t i = fuzz_below(f, n + MD_COUNT(formulas));
    return i < n ? md_catalogue_at(i)->formula : formulas[i - n];
}

static md_dev_facts pick_facts(fuzz_run *f)
{
    static const int32_t capability[] = {80, 90, 100}, bytes[] = {16, 32, 64};
    md_dev_facts facts = {.kind = MD_DEV_HOST,
                          .name = "host",
                          .threads = 1 + fuzz_below(f, 256),
                          .vector_bytes = bytes[fuzz_below(f, 3)],
                          .l1_bytes = 48 << 10,
                          .l2_bytes = 2 << 20,
                          .l3_bytes = 32 << 20,
                          .memory_gbps = 20,
                          .lane_gbps = 10,
                          .cache_gbps = 80,
                          .gflops = 400,
                          .launch_us = 2,
                          .has_blas = true};
    if (fuzz_below(f, 2) && md_dev_cuda_assume(&facts, capability[fuzz_below(f, 3)]) != MD_OK)
        abort();
    return facts;
}

int main(int argc, char **argv)
{
    fuzz_run f = fuzz_start(argc, argv, 300);
    while (fuzz_goes_on(&f)) {
        const md_dev_facts facts = pick_facts(&f);
        check_formula(&f, &facts, pick_formula(&f));
    }
    printf("%lld rounds\n", (long long)f.round - 1);
    return 0;
}
