/* What code generation prints, as digests: golden/digests.txt has a line for each formula, with the digest of all
 * texts of its stages in both dialects. MD_UPDATE_GOLDEN=1 writes the file anew: do so where a change is meant, after a
 * look at the texts (MD_SHOW_TEXTS=FORMULA prints them). A new formula is a line of its own with 0 in front, and then
 * "! " where it is split, so that products become chains. "random KIND SEED": formulas drawn by that seed and the next
 * ones (support/random/random_text.h); "catalogue": all named ones, whole and split.
 * Templates of kernels are not part of it. */
#include "base/file.h"
#include "base/hash.h"
#include "codegen/chain/pairs.h"
#include "codegen/product/product.h"
#include "codegen/row/row.h"
#include "codegen/row/scan_cuda.h"
#include "expr/catalogue.h"
#include "expr/formula.h"
#include "stage/print_program.h"
#include "support/check.h"
#include "support/random/random_text.h"

#include <inttypes.h>
#include <stdlib.h>

enum { MOST_FORMULAS = 256, RANDOM = 24 };

typedef struct texts {
    uint64_t digest;
    int32_t n;
} texts;

static void add(texts *t, md_status status, md_strbuf *defines, md_strbuf *expr)
{
    assert_false(defines->failed || expr->failed);
    const uint64_t part[] = {t->digest, (uint64_t)status, md_hash64(md_strbuf_text(defines), defines->size),
                             md_hash64(md_strbuf_text(expr), expr->size)};
    t->digest = md_hash64(part, sizeof part);
    t->n++;
    if (getenv("MD_SHOW_TEXTS"))
        printf("---- %s\n%s%s\n", md_status_name(status), md_strbuf_text(defines), md_strbuf_text(expr));
    md_strbuf_finish(defines);
    md_strbuf_finish(expr);
}

static const md_dev_kind dialects[] = {MD_DEV_HOST, MD_DEV_CUDA};

/* Lanes over the axis and, in columns, over the last outer index; in one pass or level after level. */
static void print_rows(texts *t, const md_st_program *p, int32_t stage)
{
    const md_st_stage *s = &p->stage[stage];
    for (int i = 0; i < 64; i++) {
        const md_cg_row_options o = {.program = p,
                                     .stage = stage,
                                     .dialect = dialects[i & 1],
                                     .access = i & 2 ? MD_CG_STRIDED : MD_CG_UNIT,
                                     .is_column = i & 4,
                                     .is_online = i & 8,
                                     .keep_points = i & 16 ? 64 : 0,
                                     .streaming = i & 32};
        if ((o.is_column && s->n_outer == 0) || (o.is_online && !s->row.is_online))
            continue;
        md_strbuf defines = {0}, expr = {0};
        const md_status status = md_cg_row_print(&defines, &expr, &o);
        md_cg_on_chip on_chip;
        md_cg_on_chip_make(&on_chip, &o);
        assert_in_range(on_chip.n_kept, 0, MD_CG_MAX_ON_CHIP);
        md_strbuf_printf(&defines, "%" PRId64 " %d", md_cg_row_keep_bytes(&on_chip, o.keep_points), md_cg_row_lane(&o));
        add(t, status, &defines, &expr);
    }
}

static void print_scans(texts *t, const md_st_program *p, int32_t stage)
{
    md_kn_param param[MD_KN_MAX_PARAMS];
    const int32_t n = md_cg_params(param, p, stage);
    for (int i = 0; i < 16; i++) {
        const md_cg_scan_options o = {.program = p,
                                      .stage = stage,
                                      .dialect = dialects[i & 1],
                                      .access = i & 2 ? MD_CG_STRIDED : MD_CG_UNIT,
                                      .is_column = i & 4,
                                      .streaming = i & 8,
                                      .n_params = n,
                                      .param = param};
        if (o.is_column && p->stage[stage].n_outer == 0)
            continue;
        md_strbuf defines = {0}, expr = {0};
        add(t, (o.dialect == MD_DEV_CUDA ? md_cg_scan_cuda_print : md_cg_scan_print)(&defines, &expr, &o), &defines,
            &expr);
    }
}

static void print_products(texts *t, const md_st_program *p, int32_t stage)
{
    md_kn_param param[MD_KN_MAX_PARAMS];
    const int32_t n = md_cg_params(param, p, stage);
    const md_dev_facts facts = {.vector_bytes = 64, .flags = "-mavx512bf16"};
    for (int i = 0; i < 4 * MD_CG_N_COLUMNS; i++) {
        md_cg_product product;
        md_strbuf defines = {0}, expr = {0};
        if (!md_cg_product_of(&product, p, stage, (md_cg_columns)(i / 4)))
            continue;
        product.dialect = dialects[i & 1];
        product.gathers_windows = i & 1 && i & 2 && md_cg_product_window(&product) >= 0;
        if (!(i & 1) && i & 2)
            md_cg_product_pair_bf16(&product, &facts);
        const bool has_result = md_cg_product_has_result(&product);
        md_status status = md_cg_product_print(&defines, &expr, &product, param, n);
        for (int32_t k = 0; k < 1 + product.n_products; k++)
            md_strbuf_printf(&defines, "operand %d: along %d, unit %x\n", k, md_cg_product_along(&product, k),
                             md_cg_product_unit(&product, k));
        md_strbuf_printf(&defines, "swapped %d, result %d\n", product.is_swapped, has_result);
        if (status == MD_OK && has_result && product.dialect == MD_DEV_CUDA)
            status = md_cg_product_print_result(&defines, &expr, &product);
        add(t, status, &defines, &expr);
    }
}

static void print_chains(texts *t, const md_st_program *p, int32_t stage)
{
    md_kn_param param[MD_KN_MAX_PARAMS];
    const int32_t n = md_cg_params(param, p, stage);
    for (int i = 0; i < MD_COUNT(dialects); i++) {
        md_cg_chain chain;
        md_strbuf defines = {0}, expr = {0};
        assert_true(md_cg_chain_of(&chain, p, stage, dialects[i]));
        const md_status status = md_cg_chain_print(&defines, &expr, &chain, param, n);
        for (int32_t side = 0; side < MD_ST_SIDES; side++)
            md_strbuf_printf(&defines, "%d%d ", md_cg_chain_is_load(&chain, (md_st_side)side),
                             md_cg_chain_is_linear(&chain, (md_st_side)side));
        add(t, status, &defines, &expr);
    }
}

/* What families ask of pairs, and the texts of both dialects. */
static void print_pairs(texts *t, const md_st_program *p, int32_t stage)
{
    md_kn_param param[MD_KN_MAX_PARAMS];
    const int32_t n = md_cg_params(param, p, stage);
    for (int i = 0; i < MD_COUNT(dialects); i++) {
        md_cg_chain c;
        md_strbuf defines = {0}, expr = {0};
        assert_true(md_cg_pairs_of(&c, p, stage, dialects[i]));
        const md_st_pairs *pairs = c.c->pairs;
        for (int32_t k = 0; k < pairs->n_operands; k++)
            md_strbuf_printf(&defines, "deep %d; ", md_cg_pairs_is_deep(&c, k));
        for (int32_t sum = 0; sum < pairs->n_sums; sum++) {
            md_strbuf_printf(&defines, "halves %d, uses %d %d", (int)md_cg_pairs_halves(&c, sum),
                             md_cg_pairs_uses(&c, sum, 0), pairs->n_products > 1 && md_cg_pairs_uses(&c, sum, 1));
            for (int32_t early = 0; early < pairs->n_sums; early++)
                md_strbuf_printf(&defines, ", follows %d", sum != early && md_cg_pairs_follows(&c, sum, early));
        }
        const md_status status =
            (dialects[i] == MD_DEV_CUDA ? md_cg_pairs_print_cuda : md_cg_pairs_print)(&defines, &expr, &c, param, n);
        md_cg_pairs_print_notes(&expr, &c);
        add(t, status, &defines, &expr);
    }
}

/* On a GPU loads are made ahead, and what all lanes share in front of the loop. */
static void print_fetched(texts *t, const md_st_program *p, int32_t stage)
{
    const md_fx_node *load[MD_CG_MAX_FETCHED];
    const int32_t n = md_cg_fetchable(load, p, stage);
    const md_st_stage *s = &p->stage[stage];
    md_strbuf body = {0}, prologue = {0};
    md_cg *cg = md_cg_create(&(md_cg_options){.program = p, .stage = stage, .dialect = MD_DEV_CUDA, .lane = s->axis});
    assert_non_null(cg);
    md_cg_begin(cg, &body);
    md_cg_hoist(cg, &prologue);
    for (int32_t i = 0; i < n; i++) {
        const char *type = NULL;
        bool is_uniform = false;
        const char *text = md_cg_fetch(cg, load[i], &type, &is_uniform);
        md_strbuf_printf(&body, "%s %s %d\n", text ? text : "(none)", type ? type : "", is_uniform);
    }
    for (int32_t i = 0; i < s->n_stores; i++) {
        const char *value = md_cg_lanes(cg, s->store[i].value);
        if (value)
            md_cg_store(cg, &s->store[i], value, false);
        md_cg_print_lead(cg, &s->store[i], &body);
        const char *extent = md_cg_own_extent(cg, &s->store[i]);
        md_strbuf_printf(&body, "\nextent %s\n", extent ? extent : "none");
    }
    add(t, md_cg_status(cg), &prologue, &body);
    md_cg_destroy(&cg);
}

/* Any stage's stores one after the other, with lanes over the axis, over several axes as one, or none. */
static void print_stores(texts *t, const md_st_program *p, int32_t stage)
{
    const md_st_stage *s = &p->stage[stage];
    for (int i = 0; i < 32; i++) {
        md_cg_options o = {.program = p,
                           .stage = stage,
                           .dialect = dialects[i & 1],
                           .lane = i & 2 ? -1 : s->axis,
                           .access = i & 4 ? MD_CG_STRIDED : MD_CG_UNIT,
                           .streaming = i & 8,
                           .is_owned = i & 16};
        uint32_t tensors = 0;
        o.n_flat = i & 18 ? 0 : md_cg_flat(o.flat, &tensors, p, stage);
        md_strbuf body = {0}, defines = {0};
        if (i & 2 && i & 12)
            continue;
        md_cg *cg = md_cg_create(&o);
        assert_non_null(cg);
        md_cg_begin(cg, &body);
        for (int32_t k = 0; k < s->n_stores; k++) {
            bool is_uniform = false;
            const char *value = md_cg_value(cg, s->store[k].value, &is_uniform);
            if (value)
                md_cg_store(cg, &s->store[k], value, is_uniform);
            const char *condition = md_cg_store_condition(cg);
            md_strbuf_printf(&defines, "%s\n", condition ? condition : "always");
        }
        md_cg_print_uses(cg, &defines);
        add(t, md_cg_status(cg), &defines, &body);
        md_cg_destroy(&cg);
    }
}

static void print_params(texts *t, const md_st_program *p, int32_t stage)
{
    md_kn_param param[MD_KN_MAX_PARAMS];
    int32_t flat[MD_MAX_RANK * 2];
    uint32_t tensors = 77; /* it is set */
    md_strbuf defines = {0}, expr = {0};
    const int32_t n = md_cg_params(param, p, stage), n_flat = md_cg_flat(flat, &tensors, p, stage);
    md_cg_print_params(&defines, param, n);
    md_strbuf_printf(&expr, "flat %d, tensors %x, unit %x\n", n_flat, tensors,
                     md_cg_unit_tensors(p, stage, p->stage[stage].axis));
    for (int32_t i = 0; i < n_flat; i++)
        md_strbuf_printf(&expr, "%d ", flat[i]);
    const md_st_stage *s = &p->stage[stage];
    md_cg_print_points(&expr, p, s->n_outer, s->outer);
    md_cg_print_decode(&expr, p, s->n_outer, s->outer, "point");
    md_cg_print_advance(&expr, p, s->n_outer, s->outer);
    md_cg_print_row_at(&expr, p, s->n_outer, s->outer);
    add(t, MD_OK, &defines, &expr);
}

static void print_stage(texts *t, const md_st_program *p, int32_t s)
{
    print_params(t, p, s);
    if (p->stage[s].kind == MD_ST_CHAIN)
        (p->stage[s].chain->pairs ? print_pairs : print_chains)(t, p, s);
    else if (p->stage[s].kind == MD_ST_ROW)
        print_rows(t, p, s);
    else if (p->stage[s].kind == MD_ST_SCAN)
        print_scans(t, p, s);
    else if (p->stage[s].kind == MD_ST_PRODUCT)
        print_products(t, p, s);
    else
        print_stores(t, p, s);
    if (p->stage[s].kind == MD_ST_POINTWISE)
        print_fetched(t, p, s);
}

/* Operations and bytes of the stages at some sizes. */
static void print_work(md_strbuf *out, const md_st_program *p)
{
    static const int64_t sizes[][3] = {{1, 1, 1}, {7, 64, 33}, {0, 3, 2}, {4096, 5, 1000}};
    const md_fx_formula *f = p->formula;
    for (int i = 0; i < MD_COUNT(sizes); i++) {
        int64_t size[MD_FX_MAX_DIMS];
        for (int32_t d = 0; d < f->n_dims; d++)
            size[d] = f->dim[d].size >= 0 ? f->dim[d].size : sizes[i][d % 3];
        for (int32_t s = 0; s < p->n_stages; s++) {
            double flops, bytes;
            md_st_work(&flops, &bytes, p, s, size);
            md_strbuf_printf(out, "%.9g %.9g; ", flops, bytes);
        }
    }
}

/* The formula as the library prints it, its stages, and their texts; of one that is refused, why. */
static void add_formula(texts *t, const char *formula, bool is_split)
{
    md_fx_formula *f = NULL;
    md_st_program *p = NULL;
    md_strbuf text = {0}, program = {0};
    md_status status = md_fx_formula_create(&f, formula, NULL);
    if (status == MD_OK && is_split)
        status = md_st_split(f);
    if (status == MD_OK)
        status = md_st_program_create(&p, f);
    if (status == MD_OK) {
        md_fx_print(&text, f);
        print_program(&program, p);
        print_work(&program, p);
    } else {
        md_strbuf_add(&text, md_last_error());
    }
    add(t, status, &text, &program);
    for (int32_t s = 0; p && s < p->n_stages; s++)
        print_stage(t, p, s);
    md_st_program_destroy(&p);
    md_fx_formula_destroy(&f);
}

static void add_random(void *user, const char *formula, bool is_split)
{
    add_formula(user, formula, is_split);
}

static texts texts_of(const char *formula)
{
    texts t = {0};
    if (random_texts(formula, RANDOM, add_random, &t))
        return t;
    if (!strcmp(formula, "catalogue")) {
        for (int32_t i = 0; md_catalogue_at(i); i++) {
            add_formula(&t, md_catalogue_at(i)->formula, false);
            add_formula(&t, md_catalogue_at(i)->formula, true);
        }
        return t;
    }
    const bool is_split = !strncmp(formula, "! ", 2);
    const md_catalogue_entry *e = md_catalogue_find(formula + (is_split ? 2 : 0));
    add_formula(&t, e ? e->formula : formula + (is_split ? 2 : 0), is_split);
    return t;
}

static void digests(void **state)
{
    (void)state;
    static char line[MOST_FORMULAS][1024];
    const char *path = MD_GOLDEN "/digests.txt", *one = getenv("MD_SHOW_TEXTS"); /* a formula */
    int n = 0;
    if (one) {
        (void)texts_of(one);
        return;
    }
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    while (n < MOST_FORMULAS && fgets(line[n], sizeof *line, file))
        n++;
    fclose(file);
    assert_in_range(n, 30, MOST_FORMULAS - 1);
    const bool writes = getenv("MD_UPDATE_GOLDEN") != NULL;
    md_strbuf now = {0};
    for (int i = 0; i < n; i++) {
        line[i][strcspn(line[i], "\n")] = 0;
        const char *formula = strchr(line[i], ' ');
        assert_non_null(formula);
        const texts t = texts_of(formula + 1);
        char want[64];
        snprintf(want, sizeof want, "%016" PRIx64 "/%d", t.digest, (int)t.n);
        md_strbuf_printf(&now, "%s%s\n", want, formula);
        if (!writes && (strncmp(line[i], want, strlen(want)) != 0 || line[i][strlen(want)] != ' '))
            fail_msg("%s: other texts than before (%s). If that is meant: MD_UPDATE_GOLDEN=1, and say why", formula + 1,
                     want);
    }
    if (writes)
        assert_ok(md_file_replace(path, md_strbuf_text(&now), now.size));
    md_strbuf_finish(&now);
}

/* Integers are lanes of 32 bits only where no value can need more. */
static const struct {
    const char *formula;
    bool is_narrow; /* of the last stage */
} narrow[] = {{"Y:i8[i] = relu(X:i8[i])", true},
              {"Y[i] = X:i4[i] * 0.5", true},
              {"Y:u8[i] = X:f32[i]", true}, /* of the store */
              {"Y:bool[i] = X[i] > 0", false}, /* no integers */
              {"Y:i32[i] = X:i16[i] * W:i16[i]", true}, /* 2^30 */
              {"Y:i32[i] = X:u16[i] * W:u16[i]", false}, /* 2^32 */
              {"Y:i32[i] = X:i16[i] * W:i16[i] + X[i] * W[i]", false}, /* 2^31 */
              {"Y:i32[i] = X:i32[i] + 1", false},
              {"Y:i32[i] = -X:i32[i]", false},
              {"Y:i32[i] = max(X:i32[i], 3)", true},
              {"Y:i32[i] = clamp(X:i32[i], -5, 5) * 100", true},
              {"Y:i32[i] = where(X:bool[i], 7, W:i8[i])", true},
              {"Y:i32[i] = where(X:bool[i], 3000000000, W:i8[i])", false},
              {"Y:i8[i] = i8(X:f32[i]) + W:i8[i]", true},
              {"Y:i64[i] = X:i8[i]", false}, /* tensors of 64 bits */
              {"Y:i32[i] = X:i8[i] + W:u32[i]", false},
              {"Y:i32[i] = X:i8[i] + i", false}, /* positions */
              {"scalar k:i64; Y:i32[i] = X:i8[i] + k", false},
              {"Y:i32[i] = X:i8[i] << 3", false},
              {"Y[i,d] = E:i8[ids[i],d] * 0.5", false}, /* offsets */
              {"Y[j] = sum[k](A[k] * W:i8[j,k])", true},
              {"Y:i32[j] = sum[k](A:i8[k] * W:i8[j,k])", false}, /* the sum */
              {"Y[] = sum[i](X:i8[i])", false},
              {"Y[i] = max[j](f32(X:i8[i,j]))", true},
              /* one step within the range of 32 bits, and beyond */
              {"Y:i32[i] = X:i4[i] * 268435456", true},
              {"Y:i32[i] = X:i4[i] * 268435457", false},
              {"Y:i32[i] = X:u4[i] * 143165576", true},
              {"Y:i32[i] = X:u4[i] * 143165577", false},
              {"Y:i32[i] = X:i8[i] * 16777216", true},
              {"Y:i32[i] = X:i8[i] * 16777217", false},
              {"Y:i32[i] = X:u8[i] * 8421504", true},
              {"Y:i32[i] = X:u8[i] * 8421505", false},
              {"Y:i32[i] = X:i16[i] * 65536", true},
              {"Y:i32[i] = X:i16[i] * 65537", false},
              {"Y:i32[i] = X:u16[i] * 32768", true},
              {"Y:i32[i] = X:u16[i] * 32769", false},
              {"Y:i32[i] = X:i16[i] * 65536 - 1", false},
              {"Y:i32[i] = 1 - X:i16[i] * 65536", false},
              {"Y:i32[i] = -(X:i16[i] * 65536)", false},
              {"Y:i32[i] = -(X:i16[i] * 65535)", true},
              {"Y:i32[i] = X:i16[i] * 65535 + 98302", true},
              {"Y:i32[i] = X:i16[i] * 65535 + 98303", false},
              {"Y:i32[i] = X:i16[i] * 65536 + 65536", false},
              {"Y:i32[i] = max(X:i32[i], 3) - 3", true},
              {"Y:i32[i] = min(X:i32[i], 3) - 3", false},
              {"Y:i32[i] = where(X:bool[i], 40000, W:i8[i]) * 50000", true},
              {"Y:i32[i] = where(X:bool[i], 40000, W:i8[i]) * 60000", false},
              {"Y:i32[i] = where(X:bool[i], W:i8[i], 40000) * 50000", true},
              {"Y:i32[i] = where(X:bool[i], W:i8[i], 40000) * 60000", false},
              {"Y:i32[i] = where(X:bool[i], -40000, W:i8[i]) * 60000", false},
              {"Y:i32[i] = where(X:bool[i], W:i8[i], -40000) * 60000", false}};

static void narrow_integers(void **state)
{
    (void)state;
    for (int i = 0; i < MD_COUNT(narrow); i++) {
        md_fx_formula *f = NULL;
        md_st_program *p = NULL;
        assert_ok(md_fx_formula_create(&f, narrow[i].formula, NULL));
        assert_ok(md_st_program_create(&p, f));
        if (md_cg_has_narrow_integers(p, p->n_stages - 1) != narrow[i].is_narrow)
            fail_msg("%s", narrow[i].formula);
        md_st_program_destroy(&p);
        md_fx_formula_destroy(&f);
    }
}

/* Conversions whose low bits are those of their operand, and operations that need no more of theirs: lanes stay as
 * narrow as what is stored, although the values between do not fit. */
static const struct {
    const char *formula;
    md_cg_bytes bytes;
} byte_lanes[] = {{"Y:u16[i,j] = u16(X:u16[i,j] + 3)", MD_CG_SIGNED_WORDS},
                  {"Y:u16[i,j] = i16(X:u16[i,j] + 3)", MD_CG_SIGNED_WORDS},
                  {"Y:i16[i,j] = i32(X:i16[i,j] * 5)", MD_CG_SIGNED_WORDS},
                  {"Y:i16[i,j] = i64(X:i16[i,j] * 5)", MD_CG_SIGNED_WORDS},
                  {"Y:i16[i,j] = i8(X:i16[i,j] + 5)", MD_CG_NO_BYTES}, /* the low byte with its sign */
                  {"Y:i16[i,j] = u8(X:i16[i,j] + 5)", MD_CG_NO_BYTES},
                  {"Y:i16[i,j] = i16(f32(X:i16[i,j]) * 0.5)", MD_CG_NO_BYTES},
                  {"Y:i8[i,j] = i8(X:i8[i,j] + 3)", MD_CG_SIGNED_BYTES},
                  {"Y:i8[i,j] = u8(X:i8[i,j] + 3)", MD_CG_SIGNED_BYTES},
                  {"Y:i8[i,j] = i16(X:i8[i,j] + 3)", MD_CG_SIGNED_BYTES},
                  {"Y:i8[i,j] = u16(X:i8[i,j] + 3)", MD_CG_SIGNED_BYTES},
                  {"Y:i8[i,j] = i4(X:i8[i,j] + 3)", MD_CG_NO_BYTES},
                  {"Y:i8[i,j] = -(X:i8[i,j] + 1)", MD_CG_SIGNED_BYTES},
                  {"Y:i8[i,j] = X:i8[i,j] * Z:i8[i,j] - Z[i,j]", MD_CG_SIGNED_BYTES},
                  {"Y:i8[i,j] = fma(X:i8[i,j], Z:i8[i,j], 7)", MD_CG_SIGNED_BYTES},
                  {"Y:i8[i,j] = (X:i8[i,j] + 1) & (Z:i8[i,j] + 1)", MD_CG_SIGNED_BYTES},
                  {"Y:i8[i,j] = (X:i8[i,j] + 1) | (Z:i8[i,j] + 1)", MD_CG_SIGNED_BYTES},
                  {"Y:i8[i,j] = ~(X:i8[i,j] + 1)", MD_CG_SIGNED_BYTES},
                  {"Y:i8[i,j] = abs(X:i8[i,j] + 1)", MD_CG_NO_BYTES}, /* needs the sign */
                  {"Y:i8[i,j] = max(X:i8[i,j] + 1, 3)", MD_CG_NO_BYTES},
                  {"Y:i8[i,j] = where(X:i8[i,j] > 0, X[i,j] + 1, 3 - X[i,j])", MD_CG_SIGNED_BYTES},
                  {"Y:i8[i,j] = where(X:i8[i,j] + 1 > 0, X[i,j], 3)", MD_CG_NO_BYTES},
                  {"Y:i8[i,j] = where(X:i8[i,j] > 0, -100, Z:i8[i,j])", MD_CG_SIGNED_BYTES},
                  {"Y:bool[i,j] = where(X:bool[i,j], Z:i8[i,j], -100) > 0", MD_CG_SIGNED_BYTES},
                  {"Y:bool[i,j] = where(X:bool[i,j], Z:i8[i,j], -200) > 0", MD_CG_NO_BYTES},
                  {"Y:bool[i,j] = where(X:bool[i,j], 200, Z:i8[i,j]) > 0", MD_CG_NO_BYTES},
                  {"Y:u8[i,j] = X:u8[j,i] + 1", MD_CG_NO_BYTES}, /* no consecutive elements */
                  {"Y:u8[i,j] = X:u8[i,2*j] + 1", MD_CG_NO_BYTES},
                  {"Y:u8[i,j] = X:u8[i,j] + Z:u8[i]", MD_CG_SIGNED_BYTES}};

static void lanes_as_narrow_as_what_is_stored(void **state)
{
    (void)state;
    for (int i = 0; i < MD_COUNT(byte_lanes); i++) {
        md_fx_formula *f = NULL;
        md_st_program *p = NULL;
        assert_ok(md_fx_formula_create(&f, byte_lanes[i].formula, NULL));
        assert_ok(md_st_program_create(&p, f));
        const md_cg_bytes bytes = md_cg_byte_lanes(p, p->n_stages - 1);
        if (bytes != byte_lanes[i].bytes)
            fail_msg("%s: lanes of kind %d", byte_lanes[i].formula, (int)bytes);
        md_st_program_destroy(&p);
        md_fx_formula_destroy(&f);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(digests), cmocka_unit_test(narrow_integers),
                                       cmocka_unit_test(lanes_as_narrow_as_what_is_stored)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
