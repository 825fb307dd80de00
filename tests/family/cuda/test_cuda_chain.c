/* Families of chains on a GPU, compiled without one: attention in many forms, configs of each family, held to no stack
 * frame, no spills, no lost performance, and shared memory that a block can have: two of each family on 9.0, one on
 * others, of formulas that the seed picks. `--full`: every config, once each, at some lengths of keys and values. A
 * family's name: a config of each formula, of that alone. `--formulas`: prints how many there are. A compute capability
 * (90): only that. MD_TEST_FORMULA: only that one, by number. MD_TEST_DUMP: a file for the text of the last kernel.
 * MD_TEST_CUBINS: a folder for the binaries. MD_TEST_CONFIG: only configs whose name holds it. MD_TEST_LENGTH: with
 * --full only that pair of lengths, by number. */
#include "family/cuda/gate_fixture.h"
#include "family/cuda/keep_cubin.h"

#include "base/hash.h"
#include "base/status.h"

#include <limits.h>

#define SOFTMAX                                                                                                        \
    "let P:bf16[b,h,i,j] = exp(S[b,h,i,j] - max[k](S[b,h,i,k])) / sum[k](exp(S[b,h,i,k] - max[l](S[b,h,i,l]))); "
#define LONG_SOFTMAX                                                                                                   \
    "let P[b,h,i,j] = exp(S[b,h,i,j] - max[k](S[b,h,i,k])) / sum[k](exp(S[b,h,i,k] - max[l](S[b,h,i,l]))); "
#define VALUES "Y:bf16[b,h,i,e] = sum[j](P[b,h,i,j] * V:bf16[b,h,j,e])"
#define DOT "sum[d](Q:bf16[b,h,i,d] * K:bf16[b,h,j,d])"
/* Weights whose sums are not rounded. */
#define SUMS(x)                                                                                                        \
    "let m[" x ",i] = max[j](S[" x ",i,j]); let E[" x ",i,j] = exp(S[" x ",i,j] - m[" x ",i]); let P:bf16[" x ",i,j] " \
    "= E[" x ",i,j]; let s[" x ",i] = sum[j](E[" x ",i,j]); "
#define JUDGED(x)                                                                                                      \
    "let S[b,g,r,i,j] = " x "; " SUMS("b,g,r") "Y:bf16[b,g,r,i,e] = sum[j](P[b,g,r,i,j] * V:bf16[b,g,j,e]) / "         \
                                               "s[b,g,r,i]"
/* The gradient of attention, of whose weights P the text is given. */
#define PAIRS(x) "let P:bf16[b,h,i,j] = " x "; "
#define GRADIENTS                                                                                                      \
    "let T:bf16[b,h,i,j] = P[b,h,i,j] * (sum[e](G:bf16[b,h,i,e] * V:bf16[b,h,j,e]) - w:f32[b,h,i]) * 0.125; "          \
    "A:bf16[b,h,i,d] = sum[j](T[b,h,i,j] * K[b,h,j,d]); B:bf16[b,h,j,d] = sum[i](T[b,h,i,j] * Q[b,h,i,d]); "           \
    "C:bf16[b,h,j,e] = sum[i](P[b,h,i,j] * G[b,h,i,e])"
#define GROUPED "sum[d](Q:bf16[b,g,r,i,d] * K:bf16[b,g,j,d]) * rsqrt(f32(size(d)))"
#define GROUPED_GRADIENTS                                                                                              \
    "let w[b,g,r,i] = sum[e](dY:bf16[b,g,r,i,e] * Y:bf16[b,g,r,i,e]); let T:bf16[b,g,r,i,j] = P[b,g,r,i,j] * "         \
    "(sum[e](dY[b,g,r,i,e] * V:bf16[b,g,j,e]) - w[b,g,r,i]) * rsqrt(f32(size(d))); dQ:bf16[b,g,r,i,d] = "              \
    "sum[j](T[b,g,r,i,j] * K[b,g,j,d]); dK:bf16[b,g,j,d] = sum[r,i](T[b,g,r,i,j] * Q[b,g,r,i,d]); dV:bf16[b,g,j,e] "   \
    "= sum[r,i](P[b,g,r,i,j] * dY[b,g,r,i,e])"

static const char *const list[] = {
    "let S[b,h,i,j] = where(j <= i, " DOT " * 0.125, -inf); " SOFTMAX VALUES,
    "let S[b,h,i,j] = " DOT " * 0.125; " SOFTMAX VALUES,
    "let S[b,h,i,j] = sum[d](Q:bf16[b,h,i,d] * K:bf16[b,h//4,j,d]) * 0.125; " SOFTMAX
    "Y:bf16[b,h,i,e] = sum[j](P[b,h,i,j] * V:bf16[b,h//4,j,e])",
    "let S[b,h,i,j] = where(j < len:i32[b], sum[d](Q:bf16[b,i,h,d] * K:bf16[b,j,h,d]) * 0.125, -inf); " SOFTMAX
    "Y:bf16[b,i,h,e] = sum[j](P[b,h,i,j] * V:bf16[b,j,h,e])",
    "let S[b,h,i,j] = where(j <= i and j > i - 128, " DOT " * 0.125, -inf); " SOFTMAX VALUES,
    "let S[b,h,i,j] = where(j <= i, " DOT " * 0.125 + slope[h] * (j - i), -inf); " SOFTMAX VALUES,
    "let S[b,h,i,j] = tanh(" DOT " / 50) * 50 + M[b,i,j]; " SOFTMAX VALUES,
    "let S[b,h,i,j] = where(M:bool[b,i,j], " DOT " * 0.125, -inf); " SOFTMAX VALUES,
    "let S[i,j] = sum[d](Q:f16[i,d] * K:f16[j,d]); let P:f16[i,j] = exp(S[i,j] - max[k](S[i,k])) / sum[k](exp(S[i,k] - "
    "max[l](S[i,l]))); Y:f16[i,e] = sum[j](P[i,j] * V:f16[j,e])",
    "let S[h,i,j] = sum[d](Q:f16[h,i,d] * K:f16[j,d]); let P:f16[h,i,j] = exp(S[h,i,j] - max[k](S[h,i,k])) / "
    "sum[k](exp(S[h,i,k] - max[l](S[h,i,l]))); Y:f16[h,i,e] = sum[j](P[h,i,j] * V:f16[h,j,e])",
    "let S[a,b,g,r,i,j] = sum[d](Q:bf16[a,b,i,g,r,d] * K:bf16[a,b,j,g,d]); let P:bf16[a,b,g,r,i,j] = "
    "exp(S[a,b,g,r,i,j] "
    "- max[k](S[a,b,g,r,i,k])) / sum[k](exp(S[a,b,g,r,i,k] - max[l](S[a,b,g,r,i,l]))); Y:bf16[a,b,i,g,r,e] = "
    "sum[j](P[a,b,g,r,i,j] * V:bf16[a,b,j,g,e])",
    "scalar a; let S[b,h,i,j] = " DOT
    " * a; let m[b,h,i] = max[j](S[b,h,i,j]); let e:bf16[b,h,i,j] = exp(S[b,h,i,j] - m[b,h,i]); "
    "let l[b,h,i] = sum[j](e[b,h,i,j]); Y:bf16[b,h,i,d] = sum[j](e[b,h,i,j] * V:bf16[b,h,j,d]) / l[b,h,i]; "
    "L:f32[b,h,i] = m[b,h,i] + log(l[b,h,i])",
    "let S[b,g,r,i,j] = where(j <= len:i32[b] - size(i) + i, sum[d](Q:bf16[b,i,g,r,d] * "
    "K:bf16[page:i32[b,j//64],j%64,g,d]) * 0.125, -inf); let E:bf16[b,g,r,i,j] = exp(S[b,g,r,i,j] - "
    "max[k](S[b,g,r,i,k])); let l[b,g,r,i] = sum[j](E[b,g,r,i,j]); Y:bf16[b,i,g,r,e] = "
    "sum[j](where(j <= len[b] - size(i) + i, E[b,g,r,i,j] * V:bf16[page[b,j//64],j%64,g,e], 0)) / l[b,g,r,i]",
    "let S[h,i,j] = where(j >= off:i32[seq:i32[i]] and j < off[seq[i] + 1], sum[d](Q:bf16[i,h,d] * K:bf16[j,h,d]) * "
    "0.125, -inf); "
    "let E:bf16[h,i,j] = exp(S[h,i,j] - max[k](S[h,i,k])); let l[h,i] = sum[j](E[h,i,j]); "
    "Y:bf16[i,h,e] = sum[j](E[h,i,j] * V:bf16[j,h,e]) / l[h,i]",
    /* weights that are not rounded; results of 32 bits; no maximum; weights of any kind; a sink */
    "let S[b,h,i,j] = where(j <= i, " DOT " * 0.125, -inf); " LONG_SOFTMAX VALUES,
    "let S[b,h,i,j] = " DOT " * 0.125; " LONG_SOFTMAX "Y:f32[b,h,i,e] = sum[j](P[b,h,i,j] * V:bf16[b,h,j,e])",
    "let S[b,h,i,j] = sigmoid(" DOT " * 0.125); Y:bf16[b,h,i,e] = sum[j](S[b,h,i,j] * V:bf16[b,h,j,e])",
    "let x[b,h,i,j] = exp(" DOT " * 0.125); Y:bf16[b,h,i,e] = sum[j](x[b,h,i,j] * V:bf16[b,h,j,e]) / "
    "sum[j](x[b,h,i,j])",
    "let S[b,h,i,j] = " DOT " * 0.125; let P:bf16[b,h,i,j] = exp(S[b,h,i,j] - max[k](S[b,h,i,k])) * D:u8[b,h,i,j] * 2; "
    "let l[b,h,i] = sum[j](exp(S[b,h,i,j] - max[k](S[b,h,i,k]))); Y:bf16[b,h,i,e] = sum[j](P[b,h,i,j] * "
    "V:bf16[b,h,j,e]) / l[b,h,i]",
    "let S[b,h,i,j] = " DOT " * 0.125; let m[b,h,i] = max(max[j](S[b,h,i,j]), sink[h]); let x:bf16[b,h,i,j] = "
    "exp(S[b,h,i,j] - m[b,h,i]); let l[b,h,i] = sum[j](x[b,h,i,j]) + exp(sink[h] - m[b,h,i]); Y:bf16[b,h,i,e] = "
    "sum[j](x[b,h,i,j] * V:bf16[b,h,j,e]) / l[b,h,i]",
    /* pairs: gradients; weights that are not rounded, and results of 32 bits; sums in one direction */
    PAIRS("exp(" DOT " * 0.125 - L:f32[b,h,i])") GRADIENTS,
    PAIRS("where(L:f32[b,h,i] == -inf, 0, exp(where(j <= i, " DOT " * 0.125, -inf) - L[b,h,i]))") GRADIENTS,
    PAIRS("where(j <= i and j > i - 128, exp(" DOT " * 0.125 + slope[h] * (j - i) - L:f32[b,h,i]), 0)") GRADIENTS,
    PAIRS("where(L:f32[b,h,i] == -inf, 0, exp(where(j < len:i64[b], tanh(" DOT " / 50) * 50 + M[b,i,j], -inf) - "
          "L[b,h,i]))") GRADIENTS,
    PAIRS("where(M:bool[b,i,j], exp(" DOT " * 0.125 - L:f32[b,h,i]), 0)") GRADIENTS,
    "let P:f16[h,i,j] = where(j >= off:i64[seq:i64[i]] and j <= i, exp(sum[d](Q:f16[i,h,d] * K:f16[j,h,d]) - "
    "L:f32[h,i]), 0); let T:f16[h,i,j] = P[h,i,j] * (sum[e](G:f16[i,h,e] * V:f16[j,h,e]) - w:f32[h,i]); "
    "A:f16[i,h,d] = sum[j](T[h,i,j] * K[j,h,d]); B:f16[j,h,d] = sum[i](T[h,i,j] * Q[i,h,d]); "
    "C:f16[j,h,e] = sum[i](P[h,i,j] * G[i,h,e])",
    "let P:bf16[b,h,r,i,j] = where(j <= i, exp(sum[d](Q:bf16[b,h,r,i,d] * K:bf16[b,h,j,d]) * 0.3 - L:f32[b,h,r,i]), "
    "0); let T:bf16[b,h,r,i,j] = P[b,h,r,i,j] * (sum[e](G:bf16[b,h,r,i,e] * V:bf16[b,h,j,e]) - w:f32[b,h,r,i]); "
    "A:bf16[b,h,r,i,d] = sum[j](T[b,h,r,i,j] * K[b,h,j,d]); B:bf16[b,h,j,d] = sum[r,i](T[b,h,r,i,j] * "
    "Q[b,h,r,i,d]); C:bf16[b,h,j,e] = sum[r,i](P[b,h,r,i,j] * G[b,h,r,i,e])",
    /* as tools/judge_backward.py writes it, with a mask and without */
    "let P:bf16[b,g,r,i,j] = where(j <= i + size(j) - size(i), exp(" GROUPED
    " - L:f32[b,g,r,i]), 0); " GROUPED_GRADIENTS,
    "let P:bf16[b,g,r,i,j] = exp(" GROUPED " - L:f32[b,g,r,i]); " GROUPED_GRADIENTS,
    "let P[b,h,i,j] = where(j <= i, exp(" DOT " * 0.125 - L[b,h,i]), 0); let T[b,h,i,j] = P[b,h,i,j] * "
    "(sum[e](G:bf16[b,h,i,e] * V:bf16[b,h,j,e]) - w[b,h,i]); A[b,h,i,d] = sum[j](T[b,h,i,j] * K[b,h,j,d]); "
    "B[b,h,j,d] = sum[i](T[b,h,i,j] * Q[b,h,i,d]); C[b,h,j,e] = sum[i](P[b,h,i,j] * G[b,h,i,e])",
    "let P[b,h,i,j] = sigmoid(" DOT "); A[b,h,i,d] = sum[j](P[b,h,i,j] * K[b,h,j,d]); B[b,h,j,d] = "
    "sum[i](P[b,h,i,j] * Q[b,h,i,d])",
    /* terms read at the distance of a query and a key, along either (DeBERTa) */
    "let S[b,h,i,j] = " DOT " + C:bf16[clamp(N:i64[i,j] + 64, 0, 127),b,h,i] / 13.875 + "
    "R:bf16[clamp(64 - N[j,i], 0, 127),b,h,j] / 13.875; " SOFTMAX VALUES,
    /* as tools/judge_attention.py and tools/judge_mixed.py write it: no mask, causal, packed */
    JUDGED(GROUPED),
    JUDGED("where(j <= i + size(j) - size(i), " GROUPED ", -inf)"),
    "let S[g,r,i,j] = where(j >= start:i32[i] and j <= i, sum[d](Q:bf16[i,g,r,d] * K:bf16[j,g,d]) * "
    "rsqrt(f32(size(d))), -inf); " SUMS("g,r") "Y:bf16[i,g,r,e] = sum[j](P[g,r,i,j] * V:bf16[j,g,e]) / s[g,r,i]",
};

/* Keys, values or queries whose elements do not lie side by side: kernels copy lines of 16 bytes. */
static const char *const across[] = {
    "let S[b,h,i,j] = sum[d](Q:bf16[b,h,i,d] * K:bf16[b,h,d,j]); " SOFTMAX VALUES,
    "let S[b,h,i,j] = sum[d](Q:bf16[b,h,d,i] * K:bf16[b,h,j,d]); " SOFTMAX VALUES,
    "let S[b,h,i,j] = " DOT "; " SOFTMAX "Y:bf16[b,h,i,e] = sum[j](P[b,h,i,j] * V:bf16[b,h,e,j])",
    "let S[b,h,i,j] = sum[d](Q:bf16[b,h,i,d] * K:bf16[b,d%2,j,d]); " SOFTMAX VALUES,
};

static const int32_t capability_list[] = {90, 80, 100};
enum { MOST_TEXTS = 8192, MOST_FAMILIES = 64 };

typedef struct gate {
    md_fa_target target;
    const md_fa_family *family;
    const char *text;
    uint64_t seed;
    bool is_full;
    int32_t capability; /* 0: all */
    const char *config; /* NULL: all */
    const char *length; /* NULL: some; else a number */
    int n, n_failed;
    int n_met[MD_COUNT(capability_list)][MOST_FAMILIES]; /* configs taken of each family */
    int n_seen, most; /* configs at these sizes; to be taken of the family */
    md_fa_config drawn; /* one of those seen */
    int n_tried, n_configs; /* chains, each for one capability, and the configs that they have */
    uint64_t text_key[MOST_TEXTS]; /* of what has been compiled: many sizes have the same text */
    int n_texts;
} gate;

static void dump(const char *text)
{
    const char *path = getenv("MD_TEST_DUMP");
    FILE *file = path ? fopen(path, "w") : NULL;
    if (file) {
        fputs(text, file);
        fclose(file);
    }
}

static bool is_new(gate *g, const char *text)
{
    const uint64_t key =
        md_hash64(text, strlen(text)) ^ md_hash64(g->target.facts->arch, strlen(g->target.facts->arch));
    for (int i = 0; i < g->n_texts; i++)
        if (g->text_key[i] == key)
            return false;
    if (g->n_texts < MOST_TEXTS)
        g->text_key[g->n_texts++] = key;
    return true;
}

static md_status compile_launch(gate *g, const md_kn_launch_source *source, const char *name)
{
    gate_binary b;
    const char *text = md_strbuf_text(&source->text);
    if (!is_new(g, text))
        return MD_OK;
    dump(text);
    g->n++;
    const md_status s = gate_compile(&b, source, g->target.facts->arch);
    if (s == MD_OK)
        keep_cubin(name, g->n, b.bytes, b.n);
    free(b.bytes);
    return s;
}

static void compile_config(gate *g, const md_fa_config *config)
{
    md_kn_source source = {0};
    char name[MD_FA_NAME];
    md_fa_name(name, g->family, config);
    md_status s = md_fa_emit(&source, g->family, &g->target, config);
    for (int32_t i = 0; s == MD_OK && i < source.n_launches; i++)
        s = compile_launch(g, &source.launch[i], name);
    if (s != MD_OK) {
        print_message("%s %s %s: %s\n", g->text, g->target.facts->arch, name, md_last_error());
        g->n_failed++;
    }
    md_kn_source_finish(&source);
}

/* Each config is as likely to be the drawn one. */
static bool visit_config(void *user, const md_fa_config *config)
{
    gate *g = user;
    char name[MD_FA_NAME];
    g->n_configs++;
    md_fa_name(name, g->family, config);
    if (g->config && !strstr(name, g->config))
        return true;
    if (g->is_full)
        compile_config(g, config);
    else if (check_random(&g->seed) % (uint64_t)++g->n_seen == 0)
        g->drawn = *config;
    return g->n_failed < 12;
}

/* Sizes by the name of a dim's first index. */
static void set_sizes(int64_t *size, const md_fx_formula *f, const int64_t length[2], int64_t rows)
{
    for (int32_t d = 0; d < f->n_dims; d++) {
        const char name = f->dim[d].name[0];
        size[d] = name == 'd' || name == 'e'   ? length[name == 'e']
                  : name == 'i'                ? rows
                  : name == 'j' || name == 'k' ? 4096
                                               : 4;
    }
}

/* All configs at these sizes, or one of them if more are wanted of the family. */
static void check_size(gate *g, const md_fx_formula *formula, const int64_t length[2], int64_t rows, int *n_met)
{
    int64_t size[MD_FX_MAX_DIMS] = {0};
    set_sizes(size, formula, length, rows);
    g->n_seen = 0;
    md_fa_each_all(&g->target, g->family, size, visit_config, g);
    if (g->n_seen > 0 && *n_met < g->most) {
        compile_config(g, &g->drawn);
        ++*n_met;
    }
}

/* At the first few lengths of keys and values and all numbers of rows, or at as many as it takes to find a config. */
static void check_family(gate *g, const md_fx_formula *formula, int *n_met)
{
    enum { FULL = 5 };
    static const int64_t length[][2] = {{128, 128}, {64, 64}, {256, 256}, {80, 80},  {16, 16},  {192, 128}, {48, 96},
                                        {32, 32},   {96, 96}, {64, 128},  {128, 64}, {240, 48}, {112, 144}};
    static const int64_t rows[] = {1, 4, 33, 4096};
    const int before = g->n_configs;
    const bool is_of_chains = strncmp(g->family->name, "chain", 5) == 0 || strncmp(g->family->name, "pairs", 5) == 0;
    if (!is_of_chains || !md_fa_applies(g->family, &g->target))
        return;
    const size_t some_length = check_random(&g->seed) % MD_COUNT(length),
                 some_rows = check_random(&g->seed) % MD_COUNT(rows);
    for (size_t i = 0; g->is_full && i < FULL * MD_COUNT(rows); i++)
        if (!g->length || i % FULL == 0)
            check_size(g, formula, length[g->length ? (size_t)atoi(g->length) % MD_COUNT(length) : i % FULL],
                       rows[i / FULL], n_met);
    for (size_t k = 0; !g->is_full && k < MD_COUNT(length) * MD_COUNT(rows) && g->n_configs == before; k++)
        check_size(g, formula, length[(some_length + k / MD_COUNT(rows)) % MD_COUNT(length)],
                   rows[(some_rows + k) % MD_COUNT(rows)], n_met);
}

static void check_formula(gate *g, const char *text, const char *only)
{
    md_fx_formula *formula = NULL;
    md_st_program *program = NULL;
    md_fx_options options = {.dtype = MD_F32};
    const int before = g->n_configs, tried = g->n_tried;
    assert_ok(md_fx_formula_create(&formula, text, &options));
    assert_ok(md_st_split(formula));
    assert_ok(md_st_program_create(&program, formula));
    g->text = text;
    for (int32_t stage = 0; stage < program->n_stages; stage++)
        for (size_t c = 0; c < MD_COUNT(capability_list); c++) {
            md_dev_facts facts;
            if (g->capability != 0 && g->capability != capability_list[c])
                continue;
            if (program->stage[stage].kind != MD_ST_CHAIN)
                continue;
            g->n_tried++;
            assert_ok(md_dev_cuda_assume(&facts, capability_list[c]));
            g->target = (md_fa_target){.program = program, .stage = stage, .facts = &facts};
            g->most = only ? INT_MAX : capability_list[c] == 90 ? 2 : 1;
            const md_fa_family *const *family = md_fa_families(MD_DEV_CUDA);
            for (int i = 0; family[i]; i++) {
                assert_true(i < MOST_FAMILIES);
                g->family = family[i];
                if (!only || strcmp(only, family[i]->name) == 0)
                    check_family(g, formula, &g->n_met[c][i]);
            }
        }
    if (g->n_configs == before && g->n_tried > tried && !only) {
        print_message("no family takes %s\n", text);
        g->n_failed++;
    }
    md_st_program_destroy(&program);
    md_fx_formula_destroy(&formula);
}

/* Fails if a family of chains takes the formula. */
static void check_refused(gate *g, const char *text)
{
    md_fx_formula *formula = NULL;
    md_st_program *program = NULL;
    md_fx_options options = {.dtype = MD_F32};
    int n_chains = 0;
    assert_ok(md_fx_formula_create(&formula, text, &options));
    assert_ok(md_st_split(formula));
    assert_ok(md_st_program_create(&program, formula));
    for (int32_t i = 0; i < program->n_stages * (int32_t)MD_COUNT(capability_list); i++) {
        md_dev_facts facts;
        assert_ok(md_dev_cuda_assume(&facts, capability_list[i / program->n_stages]));
        g->target = (md_fa_target){.program = program, .stage = i % program->n_stages, .facts = &facts};
        const bool is_chain = program->stage[g->target.stage].kind == MD_ST_CHAIN;
        n_chains += is_chain;
        for (const md_fa_family *const *f = md_fa_families(MD_DEV_CUDA); is_chain && *f; f++)
            if (md_fa_applies(*f, &g->target)) {
                print_message("%s takes %s\n", (*f)->name, text);
                g->n_failed++;
            }
    }
    assert_true(n_chains > 0);
    md_st_program_destroy(&program);
    md_fx_formula_destroy(&formula);
}

/* Which formulas come first, from which a sample takes most. */
static void draw_order(size_t order[MD_COUNT(list)], uint64_t *seed)
{
    for (size_t i = 0; i < MD_COUNT(list); i++) {
        const size_t k = check_random(seed) % (i + 1);
        order[i] = order[k];
        order[k] = i;
    }
}

int main(int argc, char **argv)
{
    md_dev_nvrtc nvrtc;
    (void)setvbuf(stdout, NULL, _IOLBF, 0);
    static gate g;
    if (argc == 2 && strcmp(argv[1], "--formulas") == 0)
        return printf("%d\n", (int)MD_COUNT(list)) < 0;
    g.seed = check_seed();
    g.config = getenv("MD_TEST_CONFIG");
    g.length = getenv("MD_TEST_LENGTH");
    const char *only = NULL;
    for (int i = 1; i < argc; i++)
        if (strcmp(argv[i], "--full") == 0)
            g.is_full = true;
        else if (atoi(argv[i]) > 0)
            g.capability = atoi(argv[i]);
        else
            only = argv[i];
    if (md_dev_nvrtc_open(&nvrtc) != MD_OK) {
        print_message("NOT RUN: %s\n", md_last_error());
        return 77;
    }
    const char *formula = getenv("MD_TEST_FORMULA");
    size_t order[MD_COUNT(list)];
    draw_order(order, &g.seed);
    for (size_t i = 0; i < MD_COUNT(list); i++)
        if (!formula || (size_t)atoi(formula) == order[i])
            check_formula(&g, list[order[i]], only);
    for (size_t i = 0; i < MD_COUNT(across); i++)
        check_refused(&g, across[i]);
    print_message("%d kernels compiled, %d failed\n", g.n, g.n_failed);
    return g.n_failed > 0;
}
