/* A user's own kernels as families: their callbacks, and checks of the user's descriptions. */
#include "family/custom/custom.h"

#include "base/status.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_VALUE = 1 << 30 };

/* ---- The family's functions */

static bool applies(const md_fa_target *target)
{
    return target->customs != NULL;
}

static bool all_hold(const md_fa_custom *c, md_fx_whole *const *rule, int32_t n, const int64_t *size,
                     const int32_t *tunable)
{
    int64_t v = 0, input[MD_FX_MAX_DIMS + MD_FA_MAX_FIELDS];
    md_fa_custom_inputs(input, c, size, tunable);
    for (int32_t i = 0; i < n; i++)
        if (!md_fx_whole_eval(&v, rule[i], input) || v == 0)
            return false;
    return true;
}

static bool legal(const md_fa_target *target, const md_fa_config *config, const int64_t *size)
{
    const md_fa_custom *c = md_fa_custom_of(target, config);
    return all_hold(c, c->legal, c->n_legal, size, config->value);
}

static const char *rule_miss(const md_kn_envelope *envelope, const md_kn_shape *shape)
{
    const md_fa_custom *c = envelope->rule;
    return all_hold(c, c->envelope, c->n_envelope, shape->size, envelope->rule_value)
               ? NULL
               : "outside the custom kernel's envelope";
}

static void envelope(md_kn_envelope *out, const md_fa_target *target, const md_fa_config *config)
{
    const md_fa_custom *c = md_fa_custom_of(target, config);
    uint32_t all = 0;
    for (int32_t i = 0; i < md_fa_stage(target)->n_tensors; i++)
        all |= UINT32_C(1) << md_fa_stage(target)->tensor[i];
    *out = (md_kn_envelope){.contiguous = c->is_strided ? 0 : all, .aligned16 = c->align == 16 ? all : 0};
    if (c->n_envelope == 0)
        return;
    out->rule_miss = rule_miss;
    out->rule = c;
    memcpy(out->rule_value, config->value, sizeof out->rule_value);
}

/* Evaluates at most three sizes; missing ones are 1. Returns their product, or -1 if a launch of that size is
 * impossible. */
static int64_t eval_sizes(int32_t out[3], md_fx_whole *const *rule, int32_t n, const int64_t *input, int64_t most)
{
    int64_t all = 1;
    for (int32_t i = 0; i < 3; i++) {
        int64_t v = 1;
        if (i < n && (!md_fx_whole_eval(&v, rule[i], input) || v < 0 || v > (i == 0 ? most : 65535)))
            return -1;
        out[i] = (int32_t)v;
        all *= v;
    }
    return all;
}

static void geometry(md_kn_geometries *out, const md_fa_target *target, const md_fa_config *config,
                     const md_kn_shape *shape)
{
    const md_fa_custom *c = md_fa_custom_of(target, config);
    int64_t shared = 0, input[MD_FX_MAX_DIMS + MD_FA_MAX_FIELDS];
    bool is_cuda = target->facts->kind == MD_DEV_CUDA;
    md_fa_custom_inputs(input, c, shape->size, config->value);
    *out = (md_kn_geometries){0};
    md_kn_geometry *g = &out->launch[0];
    g->grain = 1;
    g->blocks = eval_sizes(g->grid, c->grid, c->n_grid, input, INT32_MAX);
    int64_t threads = is_cuda ? eval_sizes(g->block, c->block, c->n_block, input, 1024) : 1;
    if (c->n_shared && !md_fx_whole_eval(&shared, c->shared[0], input))
        shared = -1;
    /* a grid that the device refuses, so that the call fails with an error */
    if (g->blocks < 0 || threads < 1 || shared < 0) {
        g->blocks = 1;
        g->grid[0] = g->block[0] = -1;
        shared = INT32_MAX;
    }
    g->scratch_bytes = shared;
}

/* The cost of such a kernel is unknown: the stage's bytes and operations at a part of the device's rates. */
static void features(md_fa_features *out, const md_fa_target *target, const md_fa_config *config, const int64_t *size)
{
    const md_fa_custom *c = md_fa_custom_of(target, config);
    double flops = 0, bytes = 0;
    md_st_work(&flops, &bytes, target->program, target->stage, size);
    *out = (md_fa_features){.memory_bytes = bytes / c->rate,
                            .ops = flops,
                            .ops_rate = c->rate,
                            .launches = 1,
                            .parallel = target->facts->threads,
                            .memory_rate = 1};
}

static md_fa_class numeric(const md_fa_target *target, const md_fa_config *config)
{
    const md_fa_custom *c = md_fa_custom_of(target, config);
    return (md_fa_class){.is_repeatable = c->numeric >= MD_NUMERIC_DETERMINISTIC,
                         .is_invariant = c->numeric == MD_NUMERIC_BATCH_INVARIANT};
}

/* ---- Descriptions */

static bool is_identifier(const char *text)
{
    if (!text || !(isalpha((unsigned char)text[0]) || text[0] == '_') || strlen(text) > 40)
        return false;
    for (const char *c = text; *c; c++)
        if (!isalnum((unsigned char)*c) && *c != '_')
            return false;
    return true;
}

/* Adds a tunable. Its name must be readable in names of variants: "threads128_items4". */
static md_status add_tunable(md_fa_custom *c, const md_tunable *t)
{
    if (!is_identifier(t->name) || isdigit((unsigned char)t->name[strlen(t->name) - 1]) || strchr(t->name, '_'))
        return md_fail(MD_INVALID_ARGUMENT,
                       "custom kernel '%s': a tunable's name is letters and digits, and ends with a letter: '%s'",
                       c->name, t->name ? t->name : "");
    if (c->family.n_fields == MD_FA_MAX_FIELDS)
        return md_fail(MD_INVALID_ARGUMENT, "custom kernel '%s': more than %d tunables", c->name, MD_FA_MAX_FIELDS);
    md_fa_field *f = &c->family.field[c->family.n_fields];
    if (t->n < 1 || t->n > MD_COUNT(f->value))
        return md_fail(MD_INVALID_ARGUMENT, "custom kernel '%s': tunable '%s' has %d values: expected 1 to %d", c->name,
                       t->name, t->n, (int)MD_COUNT(f->value));
    for (int32_t i = 0; i < t->n; i++) {
        if (t->value[i] < 0 || t->value[i] > MAX_VALUE)
            return md_fail(MD_INVALID_ARGUMENT, "custom kernel '%s': tunable '%s' cannot be %d", c->name, t->name,
                           t->value[i]);
        f->value[i] = t->value[i];
    }
    char *name = c->field_name[c->family.n_fields] = strdup(t->name);
    if (!name)
        return md_fail_memory();
    f->name = name;
    f->initial = t->value[0];
    f->n = t->n;
    c->family.n_fields++;
    return MD_OK;
}

static md_status add_rules(md_fa_custom *c, const md_custom *custom, const md_fx_formula *formula)
{
    const char *name[MD_FX_MAX_DIMS + MD_FA_MAX_FIELDS];
    c->n_dims = formula->n_dims;
    for (int32_t i = 0; i < c->n_dims; i++)
        name[i] = formula->dim[i].name;
    for (int32_t i = 0; i < c->family.n_fields; i++)
        name[c->n_dims + i] = c->field_name[i];
    const md_fx_names names = {c->n_dims + c->family.n_fields, name, "neither a dim of the formula nor a tunable"};
    const struct {
        md_fx_whole **rule;
        int32_t most, *n;
        const char *text, *what;
    } part[] = {{c->grid, 3, &c->n_grid, custom->grid, "grid"},
                {c->block, 3, &c->n_block, custom->block, "block"},
                {c->shared, 1, &c->n_shared, custom->shared_bytes, "shared_bytes"},
                {c->envelope, MD_FA_CUSTOM_RULES, &c->n_envelope, custom->envelope, "envelope"},
                {c->legal, MD_FA_CUSTOM_RULES, &c->n_legal, custom->legal, "legal"}};
    for (int32_t i = 0; i < MD_COUNT(part); i++) {
        char what[96];
        snprintf(what, sizeof what, "custom kernel '%s', %s", c->name, part[i].what);
        MD_TRY(md_fx_whole_parse(part[i].rule, part[i].most, part[i].n, part[i].text, what, &names));
    }
    if (c->n_grid == 0 || (c->family.device == MD_DEV_CUDA && c->n_block == 0))
        return md_fail(MD_INVALID_ARGUMENT, "custom kernel '%s' has no %s", c->name, c->n_grid == 0 ? "grid" : "block");
    return MD_OK;
}

static md_status check(const md_custom *custom)
{
    if (!is_identifier(custom->name))
        return md_fail(MD_INVALID_ARGUMENT, "a custom kernel's name is a word of letters, digits and '_': '%s'",
                       custom->name ? custom->name : "");
    if (!custom->source || !is_identifier(custom->entry))
        return md_fail(MD_INVALID_ARGUMENT, "custom kernel '%s' has no %s", custom->name,
                       custom->source ? "entry (the name of its function)" : "source");
    if (custom->align != 0 && custom->align != 16)
        return md_fail(MD_INVALID_ARGUMENT, "custom kernel '%s': align is %d: expected 0 or 16", custom->name,
                       custom->align);
    if (!(custom->rate >= 0.0 && custom->rate <= 1.0))
        return md_fail(MD_INVALID_ARGUMENT, "custom kernel '%s': rate is %g: expected a part of the device's, up to 1",
                       custom->name, custom->rate);
    if ((int)custom->numeric < 0 || custom->numeric > MD_NUMERIC_BATCH_INVARIANT)
        return md_fail(MD_INVALID_ARGUMENT, "custom kernel '%s': %d is no md_numeric", custom->name,
                       (int)custom->numeric);
    if (custom->n_tunables < 0 || (custom->n_tunables > 0 && !custom->tunable))
        return md_fail(MD_INVALID_ARGUMENT, "custom kernel '%s': no tunables where %d are said to be", custom->name,
                       custom->n_tunables);
    if (!custom->device || (strcmp(custom->device, "host") && strcmp(custom->device, "cuda")))
        return md_fail(MD_INVALID_ARGUMENT, "custom kernel '%s': device '%s': expected host or cuda", custom->name,
                       custom->device ? custom->device : "");
    return MD_OK;
}

static md_status add(md_fa_customs *all, const md_custom *custom, const md_st_program *program, md_dev_kind device)
{
    md_fa_custom *c = &all->custom[all->n];
    char family[64];
    MD_TRY(check(custom));
    for (int32_t i = 0; i < all->n; i++)
        if (!strcmp(all->custom[i].name, custom->name))
            return md_fail(MD_INVALID_ARGUMENT, "two custom kernels are named '%s'", custom->name);
    *c = (md_fa_custom){.numeric = custom->numeric,
                        .rate = custom->rate > 0.0 ? custom->rate : 1.0,
                        .is_strided = custom->strided != 0,
                        .align = custom->align};
    all->n++; /* from here on md_fa_customs_destroy frees what it holds */
    snprintf(c->name, sizeof c->name, "%s", custom->name);
    snprintf(c->entry, sizeof c->entry, "%s", custom->entry);
    snprintf(family, sizeof family, "custom/%s", custom->name);
    c->source = strdup(custom->source);
    c->family = (md_fa_family){.name = strdup(family),
                               .device = device,
                               .custom = all->n,
                               .applies = applies,
                               .legal = legal,
                               .envelope = envelope,
                               .features = features,
                               .emit = md_fa_custom_emit,
                               .geometry = geometry,
                               .numeric = numeric};
    if (!c->source || !c->family.name)
        return md_fail_memory();
    for (int32_t i = 0; i < custom->n_tunables; i++)
        MD_TRY(add_tunable(c, &custom->tunable[i]));
    MD_TRY(add_rules(c, custom, program->formula));
    return md_fa_custom_check_names(c, program);
}

/* The digest of everything on which the kernels depend. */
static md_status digest(md_fa_customs *all, const md_custom *list, int32_t n)
{
    md_strbuf b = {0};
    for (int32_t i = 0; i < n; i++) {
        const md_custom *custom = &list[i];
        const char *const text[] = {custom->name,  custom->device,       custom->source,   custom->entry, custom->grid,
                                    custom->block, custom->shared_bytes, custom->envelope, custom->legal};
        for (int32_t k = 0; k < MD_COUNT(text); k++)
            md_strbuf_bytes(&b, text[k] ? text[k] : "", text[k] ? strlen(text[k]) + 1 : 1);
        md_strbuf_printf(&b, "%d %d %d %g", (int)custom->strided, (int)custom->align, (int)custom->numeric,
                         custom->rate);
        for (int32_t k = 0; k < custom->n_tunables; k++) {
            md_strbuf_printf(&b, " %s", custom->tunable[k].name);
            for (int32_t v = 0; v < custom->tunable[k].n; v++)
                md_strbuf_printf(&b, ",%d", (int)custom->tunable[k].value[v]);
        }
    }
    bool failed = b.failed;
    if (!failed)
        all->digest = md_hash128(md_strbuf_text(&b), b.size);
    md_strbuf_finish(&b);
    return failed ? md_fail_memory() : MD_OK;
}

static md_status fill(md_fa_customs *all, const md_custom *list, int32_t n, const md_st_program *program,
                      md_dev_kind device)
{
    const char *name = device == MD_DEV_CUDA ? "cuda" : "host";
    int32_t n_list = 0;
    for (int32_t i = 0; i < n; i++) {
        MD_TRY(check(&list[i]));
        if (!strcmp(list[i].device, name))
            MD_TRY(add(all, &list[i], program, device));
    }
    for (int32_t i = 0; i < all->n; i++)
        all->list[n_list++] = &all->custom[i].family;
    return digest(all, list, n);
}

md_status md_fa_customs_create(md_fa_customs **out, const md_custom *list, int32_t n, const md_st_program *program,
                               md_dev_kind device)
{
    *out = NULL;
    if (n == 0)
        return MD_OK;
    if (n < 0 || n > MD_FA_MAX_CUSTOMS || !list)
        return md_fail(MD_INVALID_ARGUMENT, "option n_custom: %d: expected up to %d, with option custom their list", n,
                       (int)MD_FA_MAX_CUSTOMS);
    if (program->n_stages != 1)
        return md_fail(MD_UNSUPPORTED, "custom kernels are for formulas of one stage; this one has %d",
                       program->n_stages);
    md_fa_customs *all = calloc(1, sizeof *all);
    if (!all)
        return md_fail_memory();
    md_status s = fill(all, list, n, program, device);
    if (s != MD_OK || all->n == 0) {
        md_fa_customs_destroy(&all);
        return s;
    }
    *out = all;
    return MD_OK;
}

static void free_all(md_fx_whole **rule, int32_t n)
{
    for (int32_t i = 0; i < n; i++)
        free(rule[i]);
}

void md_fa_customs_destroy(md_fa_customs **customs)
{
    if (!customs || !*customs)
        return;
    for (int32_t i = 0; i < (*customs)->n; i++) {
        md_fa_custom *c = &(*customs)->custom[i];
        free(c->source);
        free((char *)(uintptr_t)c->family.name);
        for (int32_t k = 0; k < MD_FA_MAX_FIELDS; k++)
            free(c->field_name[k]);
        free_all(c->grid, c->n_grid);
        free_all(c->block, c->n_block);
        free_all(c->shared, c->n_shared);
        free_all(c->envelope, c->n_envelope);
        free_all(c->legal, c->n_legal);
    }
    free(*customs);
    *customs = NULL;
}
