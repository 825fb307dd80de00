/* Products on Hopper's tensor cores whose rows lie anywhere (gemm_rows), without a GPU: which products are taken, where
 * their envelopes end, and kernels that keep to their registers (needs NVRTC). */
#include "family/cuda/gate_fixture.h"

#include "codegen/product/product.h"
#include "family/cuda/product/conv_layout.h"

#define CONVOLUTION                                                                                                    \
    "Y[n,y,x,o] = sum[r,s,c](where(y*2+r-1 >= 0 and y*2+r-1 < size(X.1) and x*2+s-1 >= 0 and x*2+s-1 < size(X.2), "    \
    "X[n,y*2+r-1,x*2+s-1,c], 0) * W[o,r,s,c])"
#define CUBES                                                                                                          \
    "Y[n,z,y,x,o] = sum[q,r,s,c](where(z+q >= 1 and z+q <= size(X.1) and y+r >= 1 and y+r <= size(X.2) and x+s >= 1 "  \
    "and x+s <= size(X.3), X[n,z+q-1,y+r-1,x+s-1,c], 0) * W[o,q,r,s,c])"
#define GROUPED "Y[t,n] = sum[k](X[t,k] * W[e[t],n,k])"

static const struct {
    const char *text;
    md_dtype dtype;
    bool is_taken;
} list[] = {
    {CONVOLUTION, MD_BF16, true},
    {CONVOLUTION, MD_F32, false},
    {"Y[n,y,x,o] = sum[c](X[n,y*2,x*2,c] * W[o,c])", MD_F16, true},
    {CUBES, MD_BF16, true},
    {"Y[n,o,y] = sum[c,r](where(y+r-1 >= 0 and y+r-1 < size(X.2), X[n,c,y+r-1], 0) * W[o,c,r])", MD_BF16, false},
    {GROUPED, MD_BF16, true},
    {"Y[t,n] = sum[k](X[t,k] * W[e[t],k,n])", MD_F16, true},
    {"Y[t,s,n] = silu(sum[k](X[t,k] * W[e[t,s],n,k])) * sum[k](X[t,k] * V[e[t,s],n,k])", MD_BF16, true},
    {"Y[t,n] = sum[k](X[i[t],k] * W[n,k])", MD_BF16, true},
    {"Y[t,n] = sum[k](X[t,k] * W[n,k])", MD_BF16, false},
    {"Y[t,n] = sum[k](X[k,t] * W[e[t],n,k])", MD_BF16, false},
    {"size c=24; Y[n,y,x,o] = sum[r,s,c](X[n,y+r,x+s,c] * W[o,r,s,c])", MD_BF16, true},
    {"size c=3; Y[n,y,x,o] = sum[r,s,c](X[n,y+r,x+s,c] * W[o,r,s,c])", MD_BF16, false}, /* no whole pieces */
};

static void test_what_is_taken(void **state)
{
    (void)state;
    for (size_t i = 0; i < MD_COUNT(list); i++) {
        fixture f;
        open_fixture(&f, list[i].text, list[i].dtype);
        if (md_fa_applies(family_of("gemm_rows"), &f.target) != list[i].is_taken)
            fail_msg("%s in %s: %s", list[i].text, md_dtype_name(list[i].dtype),
                     list[i].is_taken ? "refused" : "taken");
        close_fixture(&f);
    }
}

/* A shape of packed tensors, whose sizes are by the names of dims: "c=8, r=3". */
static void make_shape(md_kn_shape *shape, const md_fx_formula *f, const char *sizes)
{
    *shape = (md_kn_shape){.unit = ~0u, .contiguous = ~0u, .aligned = ~0u, .aligned16 = ~0u};
    for (int32_t d = 0; d < f->n_dims; d++) {
        char name[40];
        snprintf(name, sizeof name, " %s=", f->dim[d].name);
        const char *at = strstr(sizes, name);
        shape->size[d] = at ? atoll(at + strlen(name)) : 4;
    }
    for (int32_t t = 0; t < f->n_tensors; t++) {
        int64_t stride = 1;
        for (int32_t a = f->tensor[t].rank - 1; a >= 0; a--) {
            shape->extent[t][a] = shape->size[f->tensor[t].dim[a]];
            shape->stride[t][a] = stride;
            stride *= shape->extent[t][a];
        }
    }
}

static void test_envelope(void **state)
{
    static const struct {
        const char *text, *variant, *sizes, *miss; /* a part of it; NULL: none */
    } cases[] = {
        {CONVOLUTION, "gemm_rows/rows128_columns64", " c=64 r=3 s=3", NULL},
        {CONVOLUTION, "gemm_rows/rows128_columns64", " c=8 r=8 s=8", NULL},
        {CONVOLUTION, "gemm_rows/rows128_columns64", " c=12 r=3 s=3", "multiple of eight"},
        {CONVOLUTION, "gemm_rows/rows128_columns64", " c=64 r=5 s=13", "more points"},
        {CONVOLUTION, "gemm_rows/rows128_columns64", " c=64 r=3 s=3 X.1=8192 X.2=1024", "32 bits"},
        {GROUPED, "gemm_rows/rows64_columns64", " t=100000 n=64 k=64", NULL},
        {GROUPED, "gemm_rows/rows64_columns64_few1", " t=64 n=64 k=64", NULL},
        {GROUPED, "gemm_rows/rows64_columns64_few1", " t=65 n=64 k=64", "longer"},
        {CONVOLUTION, "conv_lib/rank0", " y=28 x=3 r=3 s=3 X.1=56 X.2=5", NULL},
        {CONVOLUTION, "conv_lib/rank0", " y=28 x=4 r=3 s=3 X.1=56 X.2=5", "another border"},
    };
    (void)state;
    for (size_t i = 0; i < MD_COUNT(cases); i++) {
        fixture f;
        const md_fa_family *family = NULL;
        md_fa_config config;
        md_kn_envelope envelope = {0};
        md_kn_shape shape;
        open_fixture(&f, cases[i].text, MD_BF16);
        assert_ok(md_fa_parse(&family, &config, MD_DEV_CUDA, cases[i].variant));
        md_fa_envelope_of(&envelope, family, &f.target, &config);
        make_shape(&shape, f.formula, cases[i].sizes);
        const char *miss = md_kn_envelope_miss_of(&envelope, &shape, f.formula->n_dims);
        if (!miss != !cases[i].miss || (miss && !strstr(miss, cases[i].miss)))
            fail_msg("%s,%s: %s", cases[i].variant, cases[i].sizes, miss ? miss : "fits");
        close_fixture(&f);
    }
}

/* ---- Convolutions as a library sees them */
#define PLANES(place_y, place_x)                                                                                       \
    "where(" place_y " >= 0 and " place_y " < size(X.2) and " place_x " >= 0 and " place_x                             \
    " < size(X.3), X[n,c," place_y "," place_x "], 0)"

/* Along the first of two axes. */
#define CORNER(guard, place) "Y[n,t,u,o] = sum[r,s,c](where(" guard ", X[n," place ",u+s,c], 0) * W[o,r,s,c])"

static bool layout_by(md_fa_conv_layout *out, const md_st_program *program, md_cg_columns columns)
{
    md_cg_product p;
    return md_cg_product_of(&p, program, 0, columns) && md_fa_conv_layout_of(out, &p);
}

/* "step apart before" of each axis of the image, and the axes of batch, channels and image in the three tensors. */
static void describe_layout(char *out, size_t n_bytes, const md_fa_conv_layout *l)
{
    size_t n = (size_t)snprintf(out, n_bytes, l->is_of_filter ? "of filter " : "");
    for (int32_t i = 0; i < l->n_axes - 2; i++)
        n += (size_t)snprintf(out + n, n_bytes - n, "%d %d %d, ", (int)l->step[i], (int)l->apart[i], (int)l->before[i]);
    for (int32_t t = 0; t < MD_FA_CONV_TENSORS; t++)
        for (int32_t a = 0; a < l->n_axes; a++)
            n += (size_t)snprintf(out + n, n_bytes - n, l->axis[t][a] < 0 ? "-" : "%d", (int)l->axis[t][a]);
}

static void test_layouts_of_libraries(void **state)
{
    static const struct {
        const char *text, *layout; /* "": none */
    } cases[] = {
        {CONVOLUTION, "2 1 1, 2 1 1, 031203120312"},
        {CORNER("t+r-2 >= 0", "t+2*r-2"), ""}, /* another place than the guard's */
        {CORNER("t+2*r-2 >= 0", "t+2*r-2"), "1 2 2, 1 1 0, 031203120312"},
        {CORNER("t+r-2 >= 1", "t+r-2"), ""}, /* leaves out the first place */
        {CORNER("t+r-2 >= 0 and t < 5", "t+r-2"), ""},
        {CORNER("t-r+2 >= 0 and t-r+2 < size(X.1)", "t-r+2"), ""},
        {"Y[n,t,u,o] = relu(sum[r,s,c](where(t+r-2 >= 0, X[n,t+r-2,u+s,c], 0) * W[o,r,s,c]))", ""},
        {"Y[n,z,y,x,o] = sum[q,r,s,c](where(z+q >= 1, X[n,z+q-1,y+r,x+s,c], 0) * W[o,q,r,s,c])",
         "1 1 1, 1 1 0, 1 1 0, 041230412304123"},
        {"Y[n,o,y,x] = sum[c,r,s](" PLANES("y+2*r-2", "x+2*s-2") " * W[o,c,r,s])", "1 2 2, 1 2 2, 012301230123"},
        /* gradients of the filter, which other axes of the image give: by planes and by pixels */
        {"D[o,c,r,s] = sum[n,y,x](" PLANES("2*y+r-1", "2*x+s-1") " * G[n,o,y,x])",
         "of filter 2 1 1, 2 1 1, 012301230123"},
        {"D[o,r,s,c] = sum[n,y,x](X[n,y+2*r,x+3*s,c] * G[n,y,x,o])", "of filter 1 2 0, 1 3 0, 031203120312"},
        {"D[o,c,r,s] = sum[n,y,x](X[n,c,y+r,x+s] * G[n,o,y,x]) * 2", ""},
        /* of one axis, without points along an axis: not tried */
        {"Y[n,t,o] = sum[r,c](where(t+r-2 >= 0, X[n,t+r-2,c], 0) * W[o,r,c])", ""},
        {"Y[n,y,x,o] = sum[c](X[n,y*2,x*2,c] * W[o,c])", ""},
        {"Y[n,o,y,x] = sum[c](X[n,c,y*2,x*2] * W[o,c])", "2 1 0, 2 1 0, 012301--0123"},
        {"Y[n,o,y,x] = sum[c,r](X[n,c,y+r,x] * W[o,c,r])", ""},
        {"Y[t,n,i] = sum[k](X[t,k,i] * W[n,k])", ""},
        {GROUPED, ""},
        {"Y[t,n] = sum[k](X[t,k] * W[n,k])", ""},
    };
    (void)state;
    for (size_t i = 0; i < MD_COUNT(cases); i++) {
        fixture f;
        md_fa_conv_layout layout;
        char text[160] = "";
        open_fixture(&f, cases[i].text, MD_BF16);
        if (layout_by(&layout, f.program, MD_CG_COLUMNS_STORED) || layout_by(&layout, f.program, MD_CG_COLUMNS_N) ||
            layout_by(&layout, f.program, MD_CG_COLUMNS_M))
            describe_layout(text, sizeof text, &layout);
        if (strcmp(text, cases[i].layout) != 0)
            fail_msg("%s: %s", cases[i].text, text);
        close_fixture(&f);
    }
}

/* ---- Two tiles, of which the device picks one */
static void test_picks(void **state)
{
    static const struct {
        const char *text, *variant, *line; /* of the report; NULL: there is no such kernel */
    } cases[] = {
        {GROUPED, "gemm_rows/rows128_columns256_pick64", ": 128 x 256 ("},
        {GROUPED, "gemm_rows/rows128_columns256_pick64", " or 64 x 64 ("},
        {GROUPED, "gemm_rows/rows128_columns256", ""},
        {GROUPED, "gemm_rows/rows64_columns128_pick128", NULL}, /* the same tile */
        {GROUPED, "gemm_rows/rows128_columns128_pingpong1_pick64", NULL},
        {GROUPED, "gemm_rows/rows128_columns128_cluster2_pick64", NULL},
        {CONVOLUTION, "gemm_rows/rows128_columns128_pick64", NULL},
    };
    (void)state;
    for (size_t i = 0; i < MD_COUNT(cases); i++) {
        fixture f;
        const md_fa_family *family = NULL;
        md_fa_config config;
        md_strbuf line = {0};
        open_fixture(&f, cases[i].text, MD_BF16);
        assert_ok(md_fa_parse(&family, &config, MD_DEV_CUDA, cases[i].variant));
        const bool is_legal = md_fa_legal(family, &f.target, &config, NULL);
        family->describe(&line, &f.target, &config);
        if (is_legal != (cases[i].line != NULL) || (is_legal && !strstr(md_strbuf_text(&line), cases[i].line)) ||
            (is_legal && !*cases[i].line && line.size > 0))
            fail_msg("%s: %d, %s", cases[i].variant, is_legal, md_strbuf_text(&line));
        md_strbuf_finish(&line);
        close_fixture(&f);
    }
}

static double us_at(const fixture *f, const char *variant, const char *sizes)
{
    const md_fa_family *family = NULL;
    md_fa_config config;
    md_kn_shape shape;
    md_fa_features features = {.ops_rate = 1, .parallel = 1, .launches = 1};
    assert_ok(md_fa_parse(&family, &config, MD_DEV_CUDA, variant));
    make_shape(&shape, f->formula, sizes);
    md_fa_features_of(&features, family, &f->target, &config, shape.size);
    return features.serial_us;
}

/* 64 rows a group on average are more than 64 in every second group, so tiles of 64 rows take longer than of 128
 * (measured: 88 and 78 us for 8 groups). With one group they are one tile. */
static void test_rows_of_groups_differ(void **state)
{
    const char *small = "gemm_rows/rows64_columns64", *large = "gemm_rows/rows128_columns256";
    fixture f;
    (void)state;
    open_fixture(&f, GROUPED, MD_BF16);
    const double of_small = us_at(&f, small, " t=512, n=4096, k=4096, W.0=8"),
                 of_large = us_at(&f, large, " t=512, n=4096, k=4096, W.0=8");
    if (of_small < of_large)
        fail_msg("%g and %g us", of_small, of_large);
    assert_true(us_at(&f, small, " t=64, n=4096, k=4096, W.0=1") < us_at(&f, large, " t=64, n=4096, k=4096, W.0=1"));
    close_fixture(&f);
}

typedef struct gate {
    const char *text, *variant;
    int32_t registers;
} gate;

static const gate gates[] = {
    {CONVOLUTION, "gemm_rows/rows128_columns128_pingpong0_epilogue1", 168},
    {CONVOLUTION, "gemm_rows/rows128_columns256_pingpong0_epilogue1", 168},
    {CONVOLUTION, "gemm_rows/rows128_columns128_pingpong1_epilogue1", 168},
    {CONVOLUTION, "gemm_rows/rows256_columns64_pingpong0_epilogue1", 168},
    {CONVOLUTION, "gemm_rows/rows64_columns256_pingpong0_epilogue1", 255},
    {CONVOLUTION, "gemm_rows/rows64_columns64_pingpong0_cluster4_split4_epilogue0", 255},
    {CONVOLUTION, "gemm_rows/rows128_columns128_pingpong0_cluster1_split4_epilogue0", 168},
    {"size c=8, r=7, s=7; Y[n,y,x,o] = sum[r,s,c](where(2*y+r >= 3 and 2*y+r < size(X.1)+3 and 2*x+s >= 3 and 2*x+s < "
     "size(X.2)+3, X[n,2*y+r-3,2*x+s-3,c], 0) * W[o,r,s,c])",
     "gemm_rows/rows128_columns64_pingpong1_epilogue1", 168},
    {CUBES, "gemm_rows/rows128_columns128_pingpong1_epilogue1", 168},
    {GROUPED, "gemm_rows/rows128_columns256_pingpong0_epilogue1", 168},
    {GROUPED, "gemm_rows/rows128_columns256_pingpong0_cluster2_epilogue1", 168},
    {GROUPED, "gemm_rows/rows128_columns128_pingpong1_epilogue0", 168},
    {GROUPED, "gemm_rows/rows256_columns128_pingpong0_epilogue0", 168},
    {GROUPED, "gemm_rows/rows64_columns128_pingpong0_epilogue0", 255},
    {GROUPED, "gemm_rows/rows64_columns64_pingpong0_epilogue1_few1", 255},
    {GROUPED, "gemm_rows/rows128_columns256_epilogue1_pick64", 168},
    {GROUPED, "gemm_rows/rows128_columns256_epilogue1_pick128", 168},
    {GROUPED, "gemm_rows/rows128_columns128_epilogue1_pick64", 168},
    {GROUPED, "gemm_rows/rows64_columns128_epilogue1_few1_pick32", 255},
    {GROUPED, "gemm_rows/rows128_columns256_epilogue0_pick256", 168},
    {GROUPED, "gemm_rows/rows256_columns128_epilogue0_pick64", 168},
    {"Y[t,s,n] = silu(sum[k](X[t,k] * W[e[t,s],n,k])) * sum[k](X[t,k] * V[e[t,s],n,k])",
     "gemm_rows/rows128_columns256_epilogue0_pick64", 168},
    {"Y[t,s,n] = silu(sum[k](X[t,k] * W[e[t,s],n,k])) * sum[k](X[t,k] * V[e[t,s],n,k])",
     "gemm_rows/rows128_columns256_pingpong0_epilogue0", 168},
    {"Y[t,n] = sum[k](X[i[t],k] * W[n,k])", "gemm_rows/rows128_columns256_pingpong0_epilogue1", 168},
    /* what moves axes of planes */
    {"Y[n,y,x,c] = X[n,c,y,x]", "pointwise/flat0_strided0_transpose3_unroll1_threads256", 64},
    {"Y[n,y,x,c] = X[n,c,y,x]", "pointwise/flat0_strided0_transpose4_unroll1_threads256", 64},
    {"Y[n,c,y,x] = X[n,y,x,c]", "pointwise/flat0_strided0_transpose4_unroll1_threads256", 64},
    {"Y[n,y,x,c] = X[n,c,y,x]", "pointwise/flat0_strided0_transpose5_unroll1_threads256", 64},
    {"Y[n,c,y,x] = X[n,y,x,c]", "pointwise/flat0_strided0_transpose5_unroll1_threads256", 64},
};

static void compile(const gate *g)
{
    fixture f;
    const md_fa_family *family = NULL;
    md_fa_config config;
    md_kn_source source = {0};
    open_fixture(&f, g->text, MD_BF16);
    assert_ok(md_fa_parse(&family, &config, MD_DEV_CUDA, g->variant));
    assert_true(md_fa_legal(family, &f.target, &config, NULL));
    assert_ok(md_fa_emit(&source, family, &f.target, &config));
    for (int32_t i = 0; i < source.n_launches; i++)
        (void)compile_gate(&source.launch[i], &f, g->variant, g->registers);
    md_kn_source_finish(&source);
    close_fixture(&f);
}

static void test_registers(void **state)
{
    (void)state;
    need_nvrtc();
    for (size_t i = 0; i < MD_COUNT(gates); i++)
        compile(&gates[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_what_is_taken),         cmocka_unit_test(test_envelope),
                                       cmocka_unit_test(test_layouts_of_libraries),  cmocka_unit_test(test_picks),
                                       cmocka_unit_test(test_rows_of_groups_differ), cmocka_unit_test(test_registers)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
