/* Families of products on a GPU, compiled without one: formulas of every layout and epilogue, a few configs of each
 * family, held to no stack frame, no spills, no lost performance. `--full`: every config. An argument that is a
 * family's name: only that. MD_TEST_DUMP: a file for the text of the last kernel. */
#include "family/cuda/gate_fixture.h"

#include "base/status.h"

static const struct {
    const char *text;
    md_dtype dtype;
} list[] = {
    {"Y[i,j] = sum[k](X[i,k] * W[j,k])", MD_BF16},
    {"Y[i,j] = sum[k](X[i,k] * W[k,j])", MD_F16},
    {"Y[i,j] = sum[k](X[k,i] * W[k,j])", MD_BF16},
    {"Y[j,i] = sum[k](X[i,k] * W[j,k])", MD_BF16},
    {"Y[i,j] = gelu(sum[k](X[i,k] * W[j,k]) + B[j])", MD_BF16},
    {"Y[i,j] = silu(sum[k](X[i,k] * W[j,k])) * sum[k](X[i,k] * V[j,k])", MD_BF16},
    {"Y[i,j] = sum[k](X[i,k] * W[j,k]) + R[i,j]; Z[i,j] = relu(Y[i,j])", MD_F16},
    {"Y[b,i,j] = sum[k](X[b,i,k] * W[b,k,j])", MD_BF16},
    {"Y[b,i,j] = sum[k](X[b,i,k] * W[b//4,j,k])", MD_BF16},
    {"Y[b,i,j] = sum[k](X[b,i,k] * W[k,j]) * S[j]", MD_BF16},
    {"Y[i,h,d] = sum[k](X[i,k] * W[h,d,k])", MD_BF16},
    {"Y[i,j] = sum[k,l](X[i,k,l] * W[j,k,l])", MD_BF16},
    {"Y[i,j] = sum[k](exp(X[i,k]) * W[j,k])", MD_BF16},
    {"Y[i,j] = sum[k](X[i,k] * W:u8[j,k]) * S[j]", MD_BF16},
    {"Y[i,j] = sum[k](A:u8[k,i] * X[k,j])", MD_F16},
    {"Y[i,j] = sum[k](X[i,k] * W[j,k]) + B[j]", MD_F32},
    {"Y[i,j] = sum[k](X[i,k] * W[k,j])", MD_F32},
    {"Y[i,j] = silu(sum[k](X[k,i] * W[j,k])) * sum[k](X[k,i] * V[j,k])", MD_F32},
    {"Y[i,j] = sum[k](relu(X[i,k] - C[k]) * W[k,j])", MD_F32},
    {"Y[i,j] = sum[k](X[i,k] * W[k,j])", MD_F64},
    {"Y[i,j] = sum[k](X[i,k] * W[j,k])", MD_I32},
    {"Y[i,j] = sum[k](X[r[i],k] * W[j,k])", MD_BF16},
    {"Y[i,j] = sum[k](X[i//4,k] * W[r[j],k])", MD_F32},
    {"Y[i,j] = sum[k](X[i,k] * W[e[i],j,k])", MD_BF16},
    {"Y[i,s,j] = sum[k](X[i,k] * W[e[i,s],k,j]) + B[e[i,s],j]", MD_F16},
    {"Y[i,j] = silu(sum[k](X[r[i],k] * W[e[i],j,k])) * sum[k](X[r[i],k] * V[e[i],j,k])", MD_BF16},
    {"Y[i,j] = sum[k](X[i,k] * W[e[i],j,k])", MD_F32},
    {"Y[i,j] = sum[k](X[i,k] * (f32(W:i4[e[i],j,k]) - Z[e[i],j,k//32]) * S[e[i],j,k//32])", MD_BF16},
    {"Y[i,j] = sum[k](X:i8[i,k] * W:i8[e[i],j,k])", MD_I32},
    {"Y[i,j] = sum[k](X[i,k] * W[e[i],j,k])", MD_F64},
    /* K with bounds by batch */
    {"Y[e,i,j] = sum[t](where(o:i32[e] <= t and t < o[e+1], X[t,i] * W[t,j], 0))", MD_BF16},
    {"Y[e,i,j] = sum[t](where(t < o:i32[e] and t >= where(e > 0, o[e-1], 0), X[i,t] * W[j,t], 0)) + B[e,j]", MD_F16},
    {"Y[e,i,j] = sum[t](where(o:i64[e] <= t and t < o[e+1], X[t,i] * W[t,j], 0))", MD_F32},
    /* operands of 4 and 8 bits */
    {"Y:i32[i,j] = sum[k](X:i8[i,k] * W:i8[j,k])", MD_I32},
    {"Y[i,j] = f32(sum[k](X:u8[i,k] * W:i4[j,k])) * A[i] * B[j]", MD_BF16},
    {"Y[i,j] = f32(sum[k](X:i8[i,k] * W:i8[j,k])) * A[i] * B[j]", MD_BF16},
    {"Y[i,j] = silu(sum[k](X:f8e5m2[i,k] * W:f8e4m3[j,k]) * A[i]) * sum[k](X:f8e5m2[i,k] * V:f8e4m3[j,k])", MD_BF16},
    {"Y[b,i,j] = sum[k](X:f8e4m3[b,i,k] * W:f8e4m3[j,k]) * A[i] * B[j]", MD_BF16},
    {"Y[i,j] = sum[k](X:f8e4m3[i,k] * A[i,k//128] * W:f8e5m2[j,k] * B[j//128,k//128])", MD_F32},
    {"Y[i,j] = sum[k](X[i,k] * (f32(W:i4[j,k]) - Z[j,k//32]) * S[j,k//32])", MD_BF16},
    {"Y[i,j] = sum[k](X[i,k] * (f32(W:u4[k,j]) - Z[j,k//96]) / (1 + abs(S[k//96,j])))", MD_F16},
    {"Y[i,j] = silu(sum[k](X[i,k] * W:i8[j,k] * S[j,k//64])) * sum[k](X[i,k] * V:i8[j,k] * T[j,k//64])", MD_BF16},
    {"Y[i,j] = sum[k](X[i,k] * (f32(W:u8[j,k]) - 128)) * S[j] + B[j]", MD_F16},
    {"Y[i,j] = sum[k,l](X[i,k,l] * W:f8e4m3[j,k,l])", MD_BF16},
    /* windows of a tensor */
    {"Y[n,o,y,x] = sum[c,r,s](where(2*y+r >= 1 and 2*y+r <= size(X.2) and 2*x+s >= 1 and 2*x+s <= "
     "size(X.3), X[n,c,2*y+r-1,2*x+s-1], 0) * W[o,c,r,s])",
     MD_BF16},
    {"size r=3, s=3; Y[n,o,y,x] = relu(sum[c,r,s](where(y+r >= 1 and y+r <= size(X.2) and x+s >= 1 and "
     "x+s <= size(X.3), X[n,c,y+r-1,x+s-1], 0) * W[o,c,r,s]) + B[o])",
     MD_F16},
    {"size r=3, s=3; Y[n,y,x,o] = relu(sum[r,s,c](where(y+r >= 1 and y+r <= size(X.1) and x+s >= 1 and "
     "x+s <= size(X.2), X[n,y+r-1,x+s-1,c], 0) * W[o,r,s,c]) + R[n,y,x,o])",
     MD_BF16},
    {"Y[n,g,o,y,x] = sum[c,r,s](X[n,g,c,y+r,x+s] * W[g,o,c,r,s])", MD_BF16},
    {"D[n,c,y,x] = sum[o,r,s](where(y+1 >= r and y+1 < r+size(G.2) and x+1 >= s and x+1 < s+size(G.3), "
     "G[n,o,y+1-r,x+1-s], 0) * W[o,c,r,s])",
     MD_F16},
};

static const int32_t capability_list[] = {90, 80};
static const int64_t size_list[] = {64, 512, 4096, 3};

typedef struct gate {
    md_fa_target target;
    const md_fa_family *family;
    const char *text;
    uint64_t seed;
    bool is_full;
    int n_seen, n, n_failed;
    double ms, worst; /* of the CPU */
    char slowest[MD_FA_NAME + 24]; /* variant and architecture */
    const char *slowest_text;
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

static md_status compile_launch(gate *g, const md_kn_launch_source *source)
{
    gate_binary b;
    dump(md_strbuf_text(&source->text));
    const md_status s = gate_compile(&b, source, g->target.facts->arch);
    g->ms += b.ms;
    g->worst = MD_MAX(g->worst, b.ms);
    free(b.bytes);
    return s;
}

static bool compile_config(void *user, const md_fa_config *config)
{
    gate *g = user;
    md_kn_source source = {0};
    char name[MD_FA_NAME];
    if (!g->is_full && g->n_seen++ > 0 && check_random(&g->seed) % 1000 != 0)
        return true;
    const double worst = g->worst;
    md_fa_name(name, g->family, config);
    md_status s = md_fa_emit(&source, g->family, &g->target, config);
    for (int32_t i = 0; s == MD_OK && i < source.n_launches; i++)
        if (source.launch[i].code == MD_KN_TEXT)
            s = compile_launch(g, &source.launch[i]);
    if (g->worst > worst) {
        snprintf(g->slowest, sizeof g->slowest, "%s %s", name, g->target.facts->arch);
        g->slowest_text = g->text;
    }
    if (s != MD_OK) {
        print_message("%s %s %s: %s\n", g->text, g->target.facts->arch, name, md_last_error());
        g->n_failed++;
    }
    g->n++;
    md_kn_source_finish(&source);
    return g->n_failed < 12;
}

static void check_family(gate *g, const md_fx_formula *formula)
{
    if (strncmp(g->family->name, "gem", 3) != 0 || !md_fa_applies(g->family, &g->target))
        return;
    g->n_seen = 0;
    for (size_t i = 0; i < MD_COUNT(size_list); i++) {
        int64_t size[MD_FX_MAX_DIMS] = {0};
        for (int32_t d = 0; d < formula->n_dims; d++)
            size[d] = size_list[i];
        md_fa_each_all(&g->target, g->family, size, compile_config, g);
    }
}

static void check_formula(gate *g, int i, const char *only)
{
    md_fx_formula *formula = NULL;
    md_st_program *program = NULL;
    md_fx_options options = {.dtype = list[i].dtype};
    assert_int_equal(md_fx_formula_create(&formula, list[i].text, &options), MD_OK);
    assert_int_equal(md_st_split(formula), MD_OK);
    assert_int_equal(md_st_program_create(&program, formula), MD_OK);
    g->text = list[i].text;
    /* An eighth of the pairs of a formula and a capability, by the seed. */
    for (size_t a = 0; a < MD_COUNT(capability_list); a++)
        for (int32_t stage = 0; stage < program->n_stages; stage++)
            for (const md_fa_family *const *f = md_fa_families(MD_DEV_CUDA); *f; f++) {
                md_dev_facts facts;
                assert_int_equal(md_dev_cuda_assume(&facts, capability_list[a]), MD_OK);
                g->target = (md_fa_target){.program = program, .stage = stage, .facts = &facts, .allows_tf32 = true};
                g->family = *f;
                const bool is_taken = g->is_full || ((uint64_t)i + a * 4 + g->seed) % 8 == 0;
                if (only ? strcmp(only, g->family->name) == 0 : is_taken)
                    check_family(g, formula);
            }
    md_st_program_destroy(&program);
    md_fx_formula_destroy(&formula);
}

static const char *only;
static bool is_full;

static void test_gate(void **state)
{
    (void)state;
    gate g = {.seed = check_seed(), .is_full = is_full};
    for (size_t i = 0; i < MD_COUNT(list); i++) {
        int before = g.n;
        double ms = g.ms;
        check_formula(&g, (int)i, only);
        print_message("%3d variants, %5.0f ms each: %s\n", g.n - before, (g.ms - ms) / MD_MAX(g.n - before, 1),
                      list[i].text);
    }
    print_message("%d variants, the slowest launch compiled in %.0f ms of the CPU: %s, %s\n", g.n, g.worst, g.slowest,
                  g.slowest_text ? g.slowest_text : "-");
    assert_int_equal(g.n_failed, 0);
}

int main(int argc, char **argv)
{
    md_dev_nvrtc nvrtc;
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_gate)};
    for (int i = 1; i < argc; i++)
        if (strcmp(argv[i], "--full") == 0)
            is_full = true;
        else
            only = argv[i];
    if (md_dev_nvrtc_open(&nvrtc) != MD_OK) {
        print_message("PRODUCTS NOT COMPILED FOR GPUS: %s\n", md_last_error());
        return 77;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
