/* The gate of GPU kernels: the ops and the variants that it compiles. */
#include "gate.h"
#include "support/constants.h"

#include "support/check.h"

#include "base/status.h"
#include "expr/catalogue.h"
#include "tune/tune.h"

/* What the boards measure, and forms beside them that families print differently. */
static const char *const op_list[] = {"softmax",
                                      "layer_norm",
                                      "rms_norm",
                                      "cross_entropy",
                                      "var",
                                      "argmax",
                                      "max",
                                      "sum",
                                      "logsumexp",
                                      "causal_softmax",
                                      "masked_softmax",
                                      "residual_add_rms_norm",
                                      "column_sum",
                                      "sum_all", /* rows and columns */
                                      "copy",
                                      "transpose",
                                      "gelu",
                                      "bias_gelu",
                                      "silu_mul",
                                      "adamw", /* pointwise */
                                      "cumsum",
                                      "cumprod", /* scans */
                                      "embedding",
                                      "gather_rows",
                                      "embedding_grad",
                                      "scatter_max",
                                      "histogram",
                                      "rope", /* gathers and scatters */
                                      "Y[i,j] = X[i,j] * B[j,i] + C[j]",
                                      "Y[i,j] = X[i,j] / sum[k](abs(X[i,k]))",
                                      "Y[i,j] = cummax[j](X[i,j] * S[j])",
                                      "H[i,j] = A[i,j] * H[i,j-1] + X[i,j]",
                                      "H[i,j] = A[i,j] * H[i-1,j] + X[i,j]"};
static const md_dtype dtype_list[] = {MD_F32, MD_BF16, MD_F16};
static const int32_t capability_list[] = {80, 90, 100};

static const int64_t diagonal[] = {1, 16, 64, 256, 1024, 4096};
/* The last dim, and all others. */
static const int64_t lopsided[][2] = {{1 << 20, 1}, {131072, 16}, {64, 65536}, {12289, 4097}};
_Static_assert(MD_COUNT(diagonal) + MD_COUNT(lopsided) == GATE_SIZES, "sizes");

void gate_sizes(int64_t out[MD_FX_MAX_DIMS], const md_fx_formula *formula, int32_t i)
{
    for (int32_t d = 0; d < formula->n_dims; d++) {
        const md_fx_dim *dim = &formula->dim[d];
        if (i < (int32_t)MD_COUNT(diagonal))
            out[d] = diagonal[i];
        else
            out[d] = lopsided[i - (int32_t)MD_COUNT(diagonal)][d + 1 < formula->n_dims];
        if (dim->size >= 0)
            out[d] = dim->size;
    }
}

static const md_dev_facts *assumed(md_status *s, int32_t i)
{
    static md_dev_facts facts[MD_COUNT(capability_list)];
    if (facts[i].capability == 0)
        *s = md_dev_cuda_assume(&facts[i], capability_list[i]);
    return &facts[i];
}

/* One family at one stage on one architecture. */
typedef struct collector {
    gate_list *list;
    gate_case c;
    const int64_t *size;
    int32_t *number; /* by place in the family's table: of the case, plus 1 */
    double best_us; /* at this size, of case number `best` */
    int32_t best;
    bool failed;
} collector;

/* Where a config stands in the family's table. */
static int32_t place(const md_fa_family *family, const md_fa_config *config)
{
    int32_t at = 0;
    for (int32_t i = 0; i < family->n_fields; i++) {
        int32_t k = 0;
        while (k + 1 < family->field[i].n + family->field[i].more && family->field[i].value[k] != config->value[i])
            k++;
        at = at * (family->field[i].n + family->field[i].more) + k;
    }
    return at;
}

static bool append(gate_list *list, const gate_case *c)
{
    if (list->n == list->capacity) {
        int32_t capacity = list->capacity * 2 + 1024;
        gate_case *at = realloc(list->at, (size_t)capacity * sizeof *at);
        if (!at)
            return false;
        list->at = at;
        list->capacity = capacity;
    }
    list->at[list->n++] = *c;
    return true;
}

static bool collect(void *user, const md_fa_config *config)
{
    collector *c = user;
    int32_t *number = &c->number[place(c->c.family, config)];
    md_fa_target target = {.program = c->c.program,
                           .stage = c->c.stage,
                           .facts = c->c.facts,
                           .constants = all_inputs(c->c.program->formula)};
    c->c.config = *config;
    if (*number == 0) {
        c->failed = !append(c->list, &c->c);
        if (c->failed)
            return false;
        *number = c->list->n;
    }
    double us = md_tn_predict_us(&target, c->c.family, config, c->size);
    if (c->best == 0 || us < c->best_us) {
        c->best_us = us;
        c->best = *number;
    }
    return true;
}

static md_status collect_family(gate_list *list, const gate_case *c)
{
    collector col = {.list = list, .c = *c};
    md_fa_target target = {
        .program = c->program, .stage = c->stage, .facts = c->facts, .constants = all_inputs(c->program->formula)};
    size_t n = 1;
    if (!md_fa_applies(c->family, &target))
        return MD_OK;
    for (int32_t i = 0; i < c->family->n_fields; i++)
        n *= (size_t)(c->family->field[i].n + c->family->field[i].more);
    col.number = calloc(n, sizeof *col.number);
    if (!col.number)
        return md_fail_memory();
    for (int32_t i = 0; i < GATE_SIZES && !col.failed; i++) {
        int64_t size[MD_FX_MAX_DIMS] = {0};
        gate_sizes(size, c->program->formula, i);
        col.size = size;
        col.best = 0;
        md_fa_each_all(&target, c->family, size, collect, &col);
        if (col.best > 0 && !col.failed)
            list->at[col.best - 1].is_pooled = true;
    }
    free(col.number);
    return col.failed ? md_fail_memory() : MD_OK;
}

static md_status make_program(gate_list *list, const char *op, md_dtype dtype)
{
    const md_catalogue_entry *entry = md_catalogue_find(op);
    md_fx_options options = {.dtype = dtype};
    int32_t n = list->n_programs;
    if (n == (int32_t)MD_COUNT(list->program))
        return md_fail(MD_INTERNAL, "too many operations for the gate");
    MD_TRY(md_fx_formula_create(&list->formula[n], entry ? entry->formula : op, &options));
    list->n_programs++;
    MD_TRY(md_st_split(list->formula[n]));
    return md_st_program_create(&list->program[n], list->formula[n]);
}

static bool is_asked(const char *only, const gate_case *c)
{
    return !only || strcmp(only, c->op) == 0 || strcmp(only, c->family->name) == 0 || strcmp(only, c->facts->arch) == 0;
}

static md_status collect_program(gate_list *list, const gate_case *some, const char *only)
{
    md_status s = MD_OK;
    for (int32_t stage = 0; s == MD_OK && stage < some->program->n_stages; stage++)
        for (const md_fa_family *const *f = md_fa_families(MD_DEV_CUDA); s == MD_OK && *f; f++) {
            gate_case c = *some;
            c.stage = stage;
            c.family = *f;
            if (is_asked(only, &c))
                s = collect_family(list, &c);
        }
    return s;
}

/* A sample has one dtype and architecture for each operation; over the operations all pairs of them come up. */
md_status gate_list_make(gate_list *out, const char *only, const uint64_t *seed)
{
    enum { N_DTYPES = MD_COUNT(dtype_list), N_PLACES = MD_COUNT(dtype_list) * MD_COUNT(capability_list) };
    md_status s = MD_OK;
    for (int32_t i = 0; s == MD_OK && i < (int32_t)MD_COUNT(op_list); i++)
        for (int32_t t = 0; s == MD_OK && t < N_PLACES; t++) {
            gate_case c = {.op = op_list[i], .dtype = dtype_list[t % N_DTYPES], .op_id = i};
            if (seed && (*seed + (uint64_t)i) % N_PLACES != (uint64_t)t)
                continue;
            c.facts = assumed(&s, t / N_DTYPES);
            if (s == MD_OK)
                s = make_program(out, op_list[i], c.dtype);
            if (s == MD_OK) {
                c.program = out->program[out->n_programs - 1];
                s = collect_program(out, &c, only);
            }
        }
    return s;
}

void gate_list_finish(gate_list *list)
{
    for (int32_t i = 0; i < list->n_programs; i++) {
        md_st_program_destroy(&list->program[i]);
        md_fx_formula_destroy(&list->formula[i]);
    }
    free(list->at);
}

static void swap(gate_list *list, int32_t a, int32_t b)
{
    gate_case c = list->at[a];
    list->at[a] = list->at[b];
    list->at[b] = c;
}

/* Whether the family is met already with this operation, or on this architecture with this dtype, among the first
 * n. */
static bool is_covered(const gate_list *list, int32_t n, const gate_case *c)
{
    for (int32_t i = 0; i < n; i++) {
        const gate_case *x = &list->at[i];
        if (x->family == c->family && (x->op_id == c->op_id || (x->facts == c->facts && x->dtype == c->dtype)))
            return true;
    }
    return false;
}

/* Pools first, a sample of them in front. */
int32_t gate_list_sample(gate_list *list, uint64_t seed)
{
    int32_t n = 0, n_pooled = 0;
    for (int32_t i = list->n - 1; i > 0; i--)
        swap(list, i, (int32_t)(check_random(&seed) % (uint64_t)(i + 1)));
    for (int32_t i = 0; i < list->n; i++)
        if (list->at[i].is_pooled)
            swap(list, i, n_pooled++);
    for (int32_t i = 0; i < n_pooled; i++)
        if (!is_covered(list, n, &list->at[i]))
            swap(list, i, n++);
    list->n_pooled = n_pooled;
    return n;
}
