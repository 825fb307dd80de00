/* What families say of their configs, as digests: golden/numbers.txt has a line for each formula, with a digest of the
 * rules (which configs are legal where, envelopes, geometries, numeric classes), one of the costs (features, and the
 * model's time), and one of the launches that some configs emit (parameters, definitions, expressions; not the kernels'
 * templates), on a host and on three assumed GPUs, at several sizes. MD_UPDATE_GOLDEN=1 writes the file anew: do so
 * where a change is meant. MD_SHOW_NUMBERS=FORMULA prints the numbers, so that two versions can be compared. A new
 * formula is a line of its own with "0/0/0" in front, and then "! " where it is split, so that products become
 * chains. "random KIND SEED": formulas drawn by that seed and the next ones (support/random/random_text.h). */
#include "base/file.h"
#include "base/hash.h"
#include "base/strbuf.h"
#include "expr/formula.h"
#include "family/family.h"
#include "support/check.h"
#include "support/random/random_text.h"
#include "tune/tune.h"

#include <inttypes.h>
#include <stdlib.h>

enum { MOST_FORMULAS = 128, DEVICES = 6, SHAPES = 6, RANDOM = 4 };
enum { EMITTED = 29, WHOLE = 2 | 8 }; /* one config in so many; shapes at which all values of fields are looked at */

/* Of the dims in turn. */
static const int64_t sizes[SHAPES][4] = {{7, 33, 100, 5},      {64, 128, 256, 512}, {1, 1000, 3, 4096},
                                         {2048, 2048, 512, 1}, {300, 1, 70000, 16}, {0, 5, 9, 2}};

typedef struct numbers {
    uint64_t rules, costs, launches;
    md_strbuf text; /* of one config */
    const md_fa_target *target;
    const md_fa_family *family;
    md_kn_shape shape;
    int64_t n;
} numbers;

static void add_to(uint64_t *digest, numbers *n)
{
    assert_false(n->text.failed);
    const uint64_t part[] = {*digest, md_hash64(md_strbuf_text(&n->text), n->text.size)};
    *digest = md_hash64(part, sizeof part);
    if (getenv("MD_SHOW_NUMBERS"))
        printf("%s\n", md_strbuf_text(&n->text));
    md_strbuf_finish(&n->text);
}

static void print_envelope(md_strbuf *t, const md_kn_envelope *e, const md_kn_shape *shape)
{
    for (int32_t d = 0; d < MD_KN_MAX_DIMS; d++)
        if (e->lo[d] || e->hi[d])
            md_strbuf_printf(t, " dim%d %" PRId64 "..%" PRId64, d, e->lo[d], e->hi[d]);
    md_strbuf_printf(t, " unit %x contiguous %x aligned %x,%x points %" PRId64, e->unit, e->contiguous, e->aligned,
                     e->aligned16, e->row_points_max);
    for (int32_t i = 0; i < e->n_row_dims; i++)
        md_strbuf_printf(t, ",%d", e->row_dim[i]);
    for (int32_t i = 0; e->rule_miss && i < MD_COUNT(e->rule_value); i++)
        md_strbuf_printf(t, " %d", e->rule_value[i]);
    const char *miss = md_kn_envelope_miss(e, shape);
    md_strbuf_printf(t, " %s\n", miss ? miss : "fits");
}

static void print_geometry(md_strbuf *t, const md_kn_geometries *g)
{
    for (int32_t i = 0; i < MD_KN_MAX_LAUNCHES; i++) {
        const md_kn_geometry *l = &g->launch[i];
        md_strbuf_printf(t, " %" PRId64 " by %" PRId64 " scratch %" PRId64 " grid %d,%d,%d block %d,%d,%d %d%d%d;",
                         l->blocks, l->grain, l->scratch_bytes, l->grid[0], l->grid[1], l->grid[2], l->block[0],
                         l->block[1], l->block[2], l->cluster, l->is_cooperative, l->overlaps);
    }
    md_strbuf_printf(t, " workspace %" PRId64 "\n", g->workspace_bytes);
}

static void print_class(md_strbuf *t, const md_fa_class *c)
{
    md_strbuf_printf(t, " class %s %d%d", c->group ? c->group : "own", c->is_repeatable, c->is_invariant);
    for (int32_t i = 0; i < MD_FA_CLASS_FIELDS; i++)
        md_strbuf_printf(t, " %s", c->field[i] ? c->field[i] : "-");
}

/* In the place of codegen/assemble.c: without the template. */
md_status __wrap_md_cg_assemble(md_strbuf *out, md_dev_kind dialect, const char *template_name, const char *defines,
                                const char *expr);
md_status __wrap_md_cg_assemble(md_strbuf *out, md_dev_kind dialect, const char *template_name, const char *defines,
                                const char *expr)
{
    md_strbuf_printf(out, "%d %s\n%s%s", (int)dialect, template_name, defines, expr);
    return MD_OK;
}

static void print_launch(md_strbuf *t, const md_kn_launch_source *l)
{
    md_strbuf_printf(t, "%d %s %s\n%s", (int)l->code, l->entry, l->role ? l->role : "own", md_strbuf_text(&l->text));
    for (int32_t i = 0; i < l->n_params; i++)
        md_strbuf_printf(t, " %d,%d,%d,%d", l->param[i].kind, l->param[i].a, l->param[i].b, l->param[i].is_real);
    for (int32_t i = 0; i < l->n_maps; i++) {
        const md_kn_map *m = &l->map[i];
        md_strbuf_printf(t, "; map %d %d %d %d %d", m->tensor, m->dtype, m->swizzle, m->shrinks, m->is_copy);
        for (int32_t k = 0; k < MD_KN_MAP_RANK; k++) {
            md_strbuf_printf(t, " %d box %d of", m->axis[k], m->box[k]);
            for (int32_t d = 0; d < m->n_dims[k]; d++)
                md_strbuf_printf(t, " %d", m->dim[k][d]);
        }
    }
}

static void add_launches(numbers *n, const md_fa_config *config)
{
    static md_kn_source source;
    memset(&source, 0, sizeof source);
    md_strbuf_printf(&n->text, "%s ", md_status_name(md_fa_emit(&source, n->family, n->target, config)));
    for (int32_t i = 0; i < source.n_launches; i++)
        print_launch(&n->text, &source.launch[i]);
    add_to(&n->launches, n);
    md_kn_source_finish(&source);
}

static bool take(void *user, const md_fa_config *config)
{
    numbers *n = user;
    const md_fa_family *f = n->family;
    char name[MD_FA_NAME];
    md_kn_envelope envelope = {0};
    md_kn_geometries geometry = {0};
    md_fa_features features = {0};
    md_fa_name(name, f, config);
    md_fa_envelope_of(&envelope, f, n->target, config);
    md_strbuf_printf(&n->text, "%s", name);
    print_envelope(&n->text, &envelope, &n->shape);
    if (!md_kn_envelope_miss(&envelope, &n->shape)) {
        md_fa_geometry_of(&geometry, f, n->target, config, &n->shape);
        print_geometry(&n->text, &geometry);
    }
    if (f->numeric)
        print_class(&n->text, &(md_fa_class[]){f->numeric(n->target, config)}[0]);
    md_strbuf_printf(&n->text, " persistent %d", md_fa_is_persistent(n->target, f, config));
    add_to(&n->rules, n);
    md_fa_features_of(&features, f, n->target, config, n->shape.size);
    md_strbuf_printf(&n->text, "  bytes %.5g %.5g ops %.5g %.5g %.5g serial %.5g parallel %.5g %d %.5g: %.5g us",
                     features.memory_bytes, features.cache_bytes, features.ops, features.ops_rate,
                     features.transcendental, features.serial_us, features.parallel, features.launches,
                     features.memory_rate, md_tn_form_us(n->target, f, config, n->shape.size));
    add_to(&n->costs, n);
    if (n->n++ % EMITTED == 0)
        add_launches(n, config);
    return true;
}

static void facts_of(md_dev_facts *out, int device)
{
    /* hosts with each width of vectors, and GPUs */
    static const struct {
        int32_t capability, vector_bytes;
        double gflops;
    } devices[DEVICES] = {{0, 64, 400}, {80, 0, 0}, {90, 0, 0}, {100, 0, 0}, {0, 32, 200}, {0, 16, 60}};
    *out = (md_dev_facts){.kind = MD_DEV_HOST,
                          .threads = 4,
                          .vector_bytes = devices[device].vector_bytes,
                          .l1_bytes = 32768,
                          .l2_bytes = 1 << 20,
                          .l3_bytes = 32 << 20,
                          .memory_gbps = 20,
                          .lane_gbps = 10,
                          .cache_gbps = 60,
                          .gflops = devices[device].gflops,
                          .launch_us = 3,
                          .can_compile = true};
    if (devices[device].capability > 0)
        assert_ok(md_dev_cuda_assume(out, devices[device].capability));
}

/* is_whole: further values of fields, too, which only a measured search tries. */
static void add_stage(numbers *n, const md_fa_target *target, bool is_whole)
{
    n->target = target;
    for (const md_fa_family *const *f = md_fa_families(target->facts->kind); *f; f++) {
        n->family = *f;
        if (!(*f)->is_library && md_fa_applies(*f, target)) /* a new family changes only what it serves */
            (is_whole ? md_fa_each_all : md_fa_each)(target, *f, n->shape.size, take, n);
    }
}

static void add_program(numbers *n, const md_st_program *p)
{
    const md_fx_formula *f = p->formula;
    for (int device = 0; device < DEVICES; device++)
        for (int s = 0; s < SHAPES; s++) {
            int64_t size[MD_FX_MAX_DIMS];
            md_dev_facts facts;
            facts_of(&facts, device);
            for (int32_t d = 0; d < f->n_dims; d++)
                size[d] = f->dim[d].size >= 0 ? f->dim[d].size : sizes[s][d % 4];
            md_tn_shape(&n->shape, p, size);
            for (int32_t stage = 0; stage < p->n_stages; stage++)
                add_stage(n, &(md_fa_target){p, stage, &facts, .allows_tf32 = s % 2}, (WHOLE >> s & 1));
        }
}

/* Of random formulas some are refused. */
static void add_formula(numbers *n, const char *formula, bool is_split, bool is_random)
{
    md_fx_formula *f = NULL;
    md_st_program *p = NULL;
    md_status status = md_fx_formula_create(&f, formula, NULL);
    if (status == MD_OK && is_split)
        status = md_st_split(f);
    if (status == MD_OK)
        status = md_st_program_create(&p, f);
    assert_true(status == MD_OK || is_random);
    if (status == MD_OK)
        add_program(n, p);
    md_st_program_destroy(&p);
    md_fx_formula_destroy(&f);
}

static void add_random(void *user, const char *formula, bool is_split)
{
    add_formula(user, formula, is_split, true);
}

static numbers numbers_of(const char *formula)
{
    numbers n = {0};
    if (random_texts(formula, RANDOM, add_random, &n))
        return n;
    const bool is_split = !strncmp(formula, "! ", 2);
    add_formula(&n, formula + (is_split ? 2 : 0), is_split, false);
    return n;
}

static void digests(void **state)
{
    (void)state;
    static char line[MOST_FORMULAS][1024];
    const char *path = MD_GOLDEN "/numbers.txt", *one = getenv("MD_SHOW_NUMBERS");
    const bool writes = getenv("MD_UPDATE_GOLDEN") != NULL;
    int n = 0, n_other = 0;
    int64_t n_configs = 0;
    if (one) {
        (void)numbers_of(one);
        return;
    }
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    while (n < MOST_FORMULAS && fgets(line[n], sizeof *line, file))
        n++;
    fclose(file);
    assert_in_range(n, 20, MOST_FORMULAS - 1);
    md_strbuf now = {0};
    for (int i = 0; i < n; i++) {
        line[i][strcspn(line[i], "\n")] = 0;
        uint64_t rules = 0, costs = 0, launches = 0;
        const char *formula = strchr(line[i], ' ');
        assert_non_null(formula);
        assert_int_equal(sscanf(line[i], "%" SCNx64 "/%" SCNx64 "/%" SCNx64, &rules, &costs, &launches), 3);
        const numbers x = numbers_of(formula + 1);
        n_configs += x.n;
        md_strbuf_printf(&now, "%016" PRIx64 "/%016" PRIx64 "/%016" PRIx64 "%s\n", x.rules, x.costs, x.launches,
                         formula);
        if (!writes && (rules != x.rules || costs != x.costs || launches != x.launches)) {
            print_error("%s: other %s%s%s than before\n", formula + 1, rules != x.rules ? "rules " : "",
                        costs != x.costs ? "costs " : "", launches != x.launches ? "launches" : "");
            n_other++;
        }
    }
    printf("%" PRId64 " configs of %d formulas\n", n_configs, n);
    if (n_other > 0)
        fail_msg("%d formulas. If that is meant: MD_UPDATE_GOLDEN=1 writes %s anew", n_other, path);
    if (writes)
        assert_ok(md_file_replace(path, md_strbuf_text(&now), now.size));
    md_strbuf_finish(&now);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(digests)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
