/* Runs one variant of a formula on a device and compares it with the reference evaluator. */
#include "support/variant_internal.h"

#include "support/check.h"
#include "support/constants.h"
#include "support/find_family.h"

#include "base/dtype.h"
#include "base/hash.h"
#include "base/status.h"
#include "stage/stage.h"
#include "support/tolerance/bound.h"
#include "tune/tune.h"

#include <math.h>

static void fill_call(variant_bench *b)
{
    const md_fx_formula *f = b->formula;
    memcpy(b->shape.size, b->binding.size, sizeof b->binding.size);
    for (int32_t t = 0; t < f->n_tensors; t++) {
        const md_tensor *x = &b->tensor[t];
        int64_t expected = 1;
        bool contiguous = true, aligned = (uintptr_t)x->data % 64 == 0, aligned16 = (uintptr_t)x->data % 16 == 0;
        for (int32_t a = x->rank - 1; a >= 0; a--) {
            b->shape.stride[t][a] = x->stride[a];
            b->shape.extent[t][a] = x->size[a];
            contiguous &= x->size[a] == 1 || x->stride[a] == expected;
            expected *= x->size[a];
            aligned &= a == x->rank - 1 || x->size[a] == 1 || x->stride[a] * (int64_t)md_dtype_size(x->dtype) % 64 == 0;
            aligned16 &=
                a == x->rank - 1 || x->size[a] == 1 || x->stride[a] * (int64_t)md_dtype_size(x->dtype) % 16 == 0;
        }
        aligned16 &= x->rank == 0 || x->size[x->rank - 1] * (int64_t)md_dtype_size(x->dtype) % 16 == 0;
        bool unit = x->rank == 0 || x->stride[x->rank - 1] == 1 || x->size[x->rank - 1] <= 1;
        b->shape.contiguous |= (uint32_t)contiguous << t;
        b->shape.unit |= (uint32_t)unit << t;
        b->shape.aligned |= (uint32_t)aligned << t;
        b->shape.aligned16 |= (uint32_t)aligned16 << t;
        b->call.data[t] = x->data;
    }
    for (int32_t s = 0; s < f->n_scalars; s++)
        b->call.scalar[s] = f->scalar[s].type == MD_I64 ? (md_kn_word){.i = 3 + s} : (md_kn_word){.d = 0.5 + s};
    b->call.shape = &b->shape;
    b->call.program = b->program;
    b->call.device = b->dev;
    b->call.threads = b->dev->facts.threads;
}

/* Binaries of the texts compiled last: one text serves many sizes, and compiling is what tests wait for. */
typedef struct compiled {
    uint64_t key;
    void *binary;
    size_t n_bytes;
} compiled;
static compiled kept[128];
static unsigned n_kept;

__attribute__((destructor)) static void drop_kept(void)
{
    for (int i = 0; i < MD_COUNT(kept); i++)
        free(kept[i].binary);
}

static md_status compile(void **binary, size_t *n_bytes, md_dev *dev, const md_kn_launch_source *launch)
{
    uint64_t key = md_hash64(md_strbuf_text(&launch->text), launch->text.size);
    for (int i = 0; i < MD_COUNT(kept); i++)
        if (kept[i].binary && kept[i].key == key) {
            *binary = kept[i].binary;
            *n_bytes = kept[i].n_bytes;
            return MD_OK;
        }
    compiled *slot = &kept[n_kept++ % MD_COUNT(kept)];
    free(slot->binary);
    slot->binary = NULL;
    MD_TRY(dev->ops->compile(&slot->binary, &slot->n_bytes, dev, launch));
    slot->key = key;
    *binary = slot->binary;
    *n_bytes = slot->n_bytes;
    return MD_OK;
}

static md_status run_launch(variant_bench *b, const md_kn_launch_source *launch, const md_kn_geometry *geometry)
{
    void *binary = NULL;
    size_t n_bytes = 0;
    md_dev_kernel *kernel = NULL;
    md_kn_word params[MD_KN_MAX_PARAMS];
    if (launch->code == MD_KN_TEXT)
        MD_TRY(compile(&binary, &n_bytes, b->dev, launch));
    md_status status = b->dev->ops->load(&kernel, b->dev, binary, n_bytes, launch);
    MD_TRY(status);
    b->call.blocks = geometry->blocks;
    md_kn_pack(params, launch->param, launch->n_params, &b->call);
    if (geometry->blocks > 0)
        status =
            b->dev->ops->launch(b->dev, NULL, kernel, geometry, (md_dev_params){params, launch->n_params}, &b->call);
    md_status synced = b->dev->ops->sync(b->dev, NULL); /* it runs until then */
    b->dev->ops->unload(b->dev, kernel);
    return status == MD_OK ? synced : status;
}

static md_status run_stage(variant_bench *b, const md_fa_target *target, const md_fa_family *family,
                           const md_fa_config *config)
{
    md_kn_source source = {0};
    md_kn_geometries geometry = {0};
    MD_TRY(md_fa_emit(&source, family, target, config));
    md_fa_geometry_of(&geometry, family, target, config, &b->shape);
    variant_is_new(&source, true);
    void *workspace = NULL;
    if (geometry.workspace_bytes > 0)
        MD_TRY(b->dev->ops->alloc(&workspace, b->dev, (size_t)geometry.workspace_bytes));
    b->call.workspace = workspace;
    b->call.packed = workspace ? (char *)workspace + geometry.workspace_bytes - geometry.packed_bytes : NULL;
    b->call.stage = &b->program->stage[target->stage];
    md_status status = MD_OK;
    for (int32_t i = 0; i < source.n_launches && status == MD_OK; i++)
        status = run_launch(b, &source.launch[i], &geometry.launch[i]);
    if (workspace)
        b->dev->ops->free(b->dev, workspace);
    md_kn_source_finish(&source);
    return status;
}

static bool is_news(const md_fa_target *target, const md_fa_family *family, const md_fa_config *config)
{
    md_kn_source source = {0};
    const bool is = md_fa_emit(&source, family, target, config) == MD_OK && variant_is_new(&source, false);
    md_kn_source_finish(&source);
    return is;
}

/* Whether it can serve the stage at hand. */
static bool serves(const variant_bench *b, const md_fa_target *target, const md_fa_family *family,
                   const md_fa_config *config)
{
    md_kn_envelope envelope;
    if (!family || family->device != b->dev->facts.kind || !md_fa_applies(family, target) ||
        !md_fa_legal(family, target, config, b->binding.size))
        return false;
    memset(&envelope, 0, sizeof envelope);
    md_fa_envelope_of(&envelope, family, target, config);
    return !md_kn_envelope_miss(&envelope, &b->shape);
}

static double tolerance_of(const variant_bench *b, md_dtype t)
{
    if (b->c->tolerance != 0)
        return b->c->tolerance;
    return t == MD_F64 ? 1e-11 : t == MD_BF16 ? 0.01 : t == MD_F16 ? 0.0012 : t == MD_F32 ? 4e-6 : 0;
}

static bool same_element(const variant_bench *b, const md_tensor *got, const md_tensor *want, int64_t i)
{
    if (!md_dtype_is_real(got->dtype))
        return md_dtype_load_int(got->dtype, got->data, i) == md_dtype_load_int(want->dtype, want->data, i);
    double x = md_dtype_load(got->dtype, got->data, i), y = md_dtype_load(want->dtype, want->data, i);
    if (isnan(x) || isnan(y) || isinf(x) || isinf(y))
        return (isnan(x) && isnan(y)) || x == y;
    return fabs(x - y) <= tolerance_of(b, got->dtype) * fmax(1.0, fabs(y));
}

/* Elements within the tolerance, all bytes between them as they were. */
static bool compare_tensor(const variant_bench *b, int32_t t, char *result, char *text, size_t n_text)
{
    const md_tensor *got = &b->tensor[t];
    md_tensor want = *got;
    int64_t at[MD_MAX_RANK] = {0}, n = 1;
    size_t item = md_dtype_size(got->dtype), base = (size_t)((char *)got->data - b->buffer[t].bytes);
    /* the reference ran last: it is in place, and the variant's result in `result` */
    want.data = b->buffer[t].bytes + base;
    md_tensor mine = *got;
    mine.data = result + base;
    for (int32_t a = 0; a < got->rank; a++)
        n *= got->size[a];
    for (int64_t k = 0; k < n; k++) {
        int64_t i = 0, rest = k;
        for (int32_t a = got->rank - 1; a >= 0; a--) {
            at[a] = rest % got->size[a];
            rest /= got->size[a];
            i += at[a] * got->stride[a];
        }
        if (!same_element(b, &mine, &want, i)) {
            snprintf(text, n_text, "%s[%lld, %lld, %lld] of %s is %.17g, not %.17g", b->formula->tensor[t].name,
                     (long long)at[0], (long long)at[1], (long long)at[2], b->c->formula,
                     md_dtype_load(mine.dtype, mine.data, i), md_dtype_load(want.dtype, want.data, i));
            return false;
        }
        if (md_dtype_is_packed(got->dtype))
            md_dtype_store_int(got->dtype, result + base, i,
                               md_dtype_load_int(got->dtype, b->buffer[t].before + base, i));
        else
            memcpy(result + base + (size_t)i * item, b->buffer[t].before + base + (size_t)i * item, item);
    }
    if (memcmp(result, b->buffer[t].before, b->buffer[t].n_bytes) == 0)
        return true;
    snprintf(text, n_text, "%s of %s: bytes beside its elements changed", b->formula->tensor[t].name, b->c->formula);
    return false;
}

/* Against the derived bounds: inputs are as they were. */
static bool compare_bounds(const variant_bench *b, char *const *result, char *text, size_t n_text)
{
    static bound_result bounds[MD_FX_MAX_TENSORS];
    int64_t n_unchecked = 0;
    bool ok = bound_evaluate(bounds, b->formula, &b->binding, &(bound_options){.moves_rounding = true}) == MD_OK;
    for (int32_t t = 0; ok && t < b->formula->n_tensors; t++) {
        md_tensor got = b->tensor[t];
        if (bounds[t].n == 0)
            continue;
        got.data = result[t] + ((char *)got.data - b->buffer[t].bytes);
        ok = bound_check(&bounds[t], &got, &n_unchecked, text, n_text);
    }
    if (ok && n_unchecked > 0)
        snprintf(text, n_text, "%lld elements have no bound", (long long)n_unchecked);
    bound_finish(bounds, b->formula);
    return ok && n_unchecked == 0;
}

/* Runs the reference in place of the variant's results, which are set aside. */
static bool compare(variant_bench *b, char *text, size_t n_text)
{
    char *result[MD_FX_MAX_TENSORS] = {NULL};
    bool ok = true;
    for (int32_t t = 0; ok && t < b->formula->n_tensors; t++) {
        buffer *buf = &b->buffer[t];
        ok = (result[t] = malloc(buf->n_bytes)) != NULL;
        if (ok)
            memcpy(result[t], buf->bytes, buf->n_bytes);
        memcpy(buf->bytes, buf->before, buf->n_bytes);
    }
    md_fx_fault fault = {0};
    ok = ok && md_fx_evaluate(b->formula, &b->binding, &fault) == MD_OK;
    if (!ok)
        snprintf(text, n_text, "%s: %s", b->c->formula, md_last_error());
    if (ok && fault.is_set != (b->report.is_set != 0)) {
        snprintf(text, n_text, "%s: reported %d (tensor %d, axis %d, value %lld), should %d", b->c->formula,
                 (int)b->report.is_set, b->report.tensor, b->report.axis, (long long)b->report.value, fault.is_set);
        ok = false;
    }
    if (ok && b->c->moves_rounding)
        ok = compare_bounds(b, result, text, n_text);
    for (int32_t t = 0; ok && t < b->formula->n_tensors; t++)
        if (b->formula->tensor[t].role != MD_FX_TEMP && !b->c->moves_rounding &&
            !(b->c->is_unordered && b->formula->tensor[t].role == MD_FX_OUTPUT))
            ok = compare_tensor(b, t, result[t], text, n_text);
    for (int32_t t = 0; t < MD_FX_MAX_TENSORS; t++)
        free(result[t]);
    return ok;
}

static void finish(variant_bench *b)
{
    for (int32_t t = 0; t < MD_FX_MAX_TENSORS; t++) {
        free(b->buffer[t].bytes);
        free(b->buffer[t].before);
    }
    md_st_program_destroy(&b->program);
    md_fx_formula_destroy(&b->formula);
}

static md_fa_target target_of(const variant_bench *b, int32_t stage)
{
    return (md_fa_target){
        .program = b->program, .stage = stage, .facts = &b->dev->facts, .constants = all_inputs(b->formula)};
}

/* Stages that do not run, a bit each: the parts of a chain that the variant serves, else the chain; products whose axes
 * are moved by parts. */
static uint64_t idle_stages(const variant_bench *b, const md_fa_family *family, const md_fa_config *config)
{
    uint64_t idle = 0;
    for (int32_t i = 0; i < b->program->n_stages; i++) {
        md_fa_target target = target_of(b, i);
        const md_st_stage *s = &b->program->stage[i];
        if (s->kind == MD_ST_PRODUCT && s->n_parts > 0)
            idle |= UINT64_C(1) << i;
        if (s->kind != MD_ST_CHAIN)
            continue;
        if (!serves(b, &target, family, config))
            idle |= UINT64_C(1) << i;
        for (int32_t k = 0; k < s->n_parts && !(idle >> i & 1); k++)
            idle |= UINT64_C(1) << s->part[k];
    }
    return idle;
}

/* All stages; false at the first failure. *n_served: stages that the variant was used for. */
static bool run_all(variant_bench *b, int *n_served, const md_fa_family *family, const md_fa_config *config, char *text,
                    size_t n_text)
{
    const md_fa_family *nest = find_family(b->dev->facts.kind, "nest");
    const uint64_t idle = idle_stages(b, family, config);
    for (int32_t i = 0; i < b->program->n_stages; i++) {
        if (idle >> i & 1)
            continue;
        md_fa_target target = target_of(b, i);
        bool serving = serves(b, &target, family, config);
        md_fa_config plain = nest ? md_fa_default(nest) : (md_fa_config){{0}};
        *n_served += serving;
        if (!serving && !nest) {
            snprintf(text, n_text, "stage %d of %s: nobody serves it", (int)i, b->c->formula);
            return *n_served == 0;
        }
        if (b->is_left_out) {
            b->has_news |= serving && is_news(&target, family, config);
        } else if (run_stage(b, &target, serving ? family : nest, serving ? config : &plain) != MD_OK) {
            snprintf(text, n_text, "stage %d of %s: %s", (int)i, b->c->formula, md_last_error());
            return false;
        }
    }
    return true;
}

static bool run_config(char *text, size_t n_text, int *n_served, variant_bench *b, const md_fa_family *family,
                       const md_fa_config *config)
{
    bool ok = variant_prepare(b, text, n_text);
    *n_served = 0;
    if (ok) {
        md_dev_report report = {NULL, NULL};
        fill_call(b);
        md_status sent = variant_send(b, &report);
        variant_guard(b, !variant_is_apart(b));
        ok = sent == MD_OK && run_all(b, n_served, family, config, text, n_text);
        variant_guard(b, false);
        md_status back = variant_bring_back(b, &report);
        if (sent != MD_OK || (ok && back != MD_OK)) {
            snprintf(text, n_text, "%s: memory: %s", b->c->formula, md_last_error());
            ok = false;
        }
        if (ok && *n_served > 0 && !b->is_left_out)
            ok = compare(b, text, n_text);
    }
    finish(b);
    return ok;
}

/* What is left out at first is run where its text has what none had before. */
static bool check_config(char *text, size_t n_text, bool *skipped, variant_bench b, const md_fa_family *family,
                         const md_fa_config *config)
{
    const variant_case *c = b.c;
    int n_served = 0;
    variant_bench first = b;
    first.is_left_out = !c->is_sure && !variant_is_drawn(c, family, config);
    bool ok = run_config(text, n_text, &n_served, &first, family, config);
    if (ok && first.has_news)
        ok = run_config(text, n_text, &n_served, &b, family, config);
    if (skipped)
        *skipped = ok && n_served == 0;
    if (!ok) {
        char name[MD_FA_NAME];
        size_t used = strlen(text);
        md_fa_name(name, family, config);
        snprintf(text + used, n_text - used, " (%s, layout %d, dims %s)", name, c->layout, c->dims ? c->dims : "");
    }
    return ok;
}

bool variant_check(char *text, size_t n_text, bool *skipped, md_dev *dev, const variant_case *c, const char *variant)
{
    const md_fa_family *family = NULL;
    md_fa_config config;
    if (md_fa_parse(&family, &config, dev->facts.kind, variant) != MD_OK) {
        snprintf(text, n_text, "%s", md_last_error());
        return false;
    }
    return check_config(text, n_text, skipped, (variant_bench){.c = c, .dev = dev}, family, &config);
}

int variant_check_all(char *text, size_t n_text, md_dev *dev, const variant_case *c, const char *name)
{
    int n = 0;
    for (const md_fa_family *const *f = md_fa_families(dev->facts.kind); *f; f++) {
        int32_t at[MD_FA_MAX_FIELDS] = {0}, i = 0;
        if (name && strcmp((*f)->name, name) != 0)
            continue;
        do {
            md_fa_config config = {{0}};
            bool skipped = false;
            for (i = 0; i < (*f)->n_fields; i++)
                config.value[i] = (*f)->field[i].value[at[i]];
            if (!check_config(text, n_text, &skipped, (variant_bench){.c = c, .dev = dev}, *f, &config))
                return -1;
            n += !skipped;
            for (i = (*f)->n_fields - 1; i >= 0 && ++at[i] == (*f)->field[i].n; i--)
                at[i] = 0;
        } while (i >= 0);
    }
    return n;
}

md_status variant_text(md_strbuf *out, md_dev *dev, const variant_case *c, const char *variant)
{
    variant_bench b = {.c = c, .dev = dev};
    char text[512] = "";
    const md_fa_family *family = NULL;
    md_fa_config config;
    md_kn_source source = {0};
    md_status status = md_fa_parse(&family, &config, dev->facts.kind, variant);
    if (status == MD_OK && !variant_prepare(&b, text, sizeof text))
        status = md_fail(MD_INVALID_ARGUMENT, "%s", text);
    md_fa_target target = target_of(&b, 0);
    if (status == MD_OK)
        status = md_fa_emit(&source, family, &target, &config);
    if (status == MD_OK)
        md_strbuf_add(out, md_strbuf_text(&source.launch[0].text));
    md_kn_source_finish(&source);
    finish(&b);
    return status;
}
