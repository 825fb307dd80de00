/* Generated code against the evaluator: every operation for every type, conversions and stores between all dtypes,
 * tails, strides, guards, loops inside expressions; and the text itself for three formulas. */
#include "codegen/host.h"
#include "support/check.h"
#include "support/variant.h"

#include "base/dtype.h"
#include "base/status.h"
#include "base/strbuf.h"
#include "codegen/codegen.h"
#include "expr/ops.h"

static bool is_full;

/* Without --full every third kernel of the long lists is compiled, by MD_TEST_SEED. */
static bool is_taken(const fixture *f, int32_t i)
{
    return is_full || ((uint64_t)i + f->seed) % 3 == 0;
}

static void run(fixture *f, variant_case c, const char *variant)
{
    char text[1024] = "";
    c.seed = f->seed;
    if (!f->dev->facts.can_compile)
        skip();
    bool skipped = false;
    if (!variant_check(text, sizeof text, &skipped, f->dev, &c, variant))
        fail_msg("%s, dtype %s: %s", variant, md_dtype_name(c.dtype), text);
    if (skipped)
        fail_msg("%s does not serve %s", variant, c.formula);
}

/* In vectors, and one by one. */
static void run_both(fixture *f, variant_case c)
{
    run(f, c, "pointwise/flat0_strided0_nontemporal0_transpose0");
    run(f, c, "nest");
}

static void run_all(fixture *f, const variant_case *c, const char *family)
{
    char text[1024] = "";
    if (variant_check_all(text, sizeof text, f->dev, c, family) < 0)
        fail_msg("%s", text);
}

static const char *const real_groups[] = {
    "A[i] = X[i] + Z[i]; B[i] = X[i] - Z[i]; C[i] = X[i] * Z[i]; D[i] = X[i] / Z[i]; E[i] = -X[i]; F[i] = X[i] % Z[i];"
    "G[i] = X[i] // Z[i]; H[i] = where(X[i], 1, Z[i])",
    "A[i] = X[i] < Z[i]; B[i] = X[i] <= Z[i]; C[i] = X[i] > Z[i]; D[i] = X[i] >= Z[i]; E[i] = X[i] == Z[i];"
    "F[i] = X[i] != Z[i]; G[i] = X[i] < Z[i] and Z[i] < 1; H[i] = X[i] < Z[i] or not isnan(Z[i])",
};

/* The next functions of the table from *op on that take the type, as one formula. False where there are no more. */
static bool next_functions(char *out, size_t capacity, md_fx_op *op, md_dtype type)
{
    static const char *const operands[] = {"", "X[i]", "X[i], Z[i]", "X[i], -1, Z[i]"};
    md_strbuf text = {0};
    int n = 0;
    for (; *op < MD_FX_N_OPS && n < 2 * MD_ST_MAX_STORES; (*op)++) { /* two full stages */
        const md_fx_op_row *row = md_fx_op_info(*op);
        if (md_fx_op_is_function(*op) && (row->rule != MD_FX_RULE_INTEGER || !md_dtype_is_real(type)))
            md_strbuf_printf(&text, "Y%d[i] = %s(%s); ", n++, row->name,
                             row->lo == 0 && row->hi > 0 && row->arity == 2 ? "abs(X[i]), Z[i]" : operands[row->arity]);
    }
    snprintf(out, capacity, "%s", md_strbuf_text(&text));
    md_strbuf_finish(&text);
    return n > 0;
}

static void test_real_operations(void **state)
{
    static const md_dtype types[] = {MD_F32, MD_F64, MD_F16, MD_BF16};
    char formula[1024];
    for (int32_t t = 0; t < MD_COUNT(types); t++) {
        variant_case c = {.dims = "i=211", .dtype = types[t], .has_specials = true};
        for (int32_t g = 0; g < MD_COUNT(real_groups); g++) {
            c.formula = real_groups[g];
            if (is_taken(*state, t + g))
                run_both(*state, c);
        }
        c.formula = formula;
        int32_t n = t;
        for (md_fx_op op = MD_FX_NO_OP; next_functions(formula, sizeof formula, &op, c.dtype); n++)
            if (is_taken(*state, n))
                run_both(*state, c);
    }
}

static const char *const int_groups[] = {
    "A[i] = X[i] + Z[i]; B[i] = X[i] - Z[i]; C[i] = X[i] * Z[i]; D[i] = X[i] / Z[i]; E[i] = -X[i]; F[i] = X[i] % Z[i];"
    "G[i] = X[i] // Z[i]; H[i] = fma(X[i], Z[i], X[i])",
    "A[i] = X[i] < Z[i]; B[i] = X[i] <= Z[i]; C[i] = X[i] > Z[i]; D[i] = X[i] >= Z[i]; E[i] = X[i] == Z[i];"
    "F[i] = X[i] != Z[i]; G[i] = X[i] and Z[i]; H[i] = not X[i]",
    "A[i] = X[i] or Z[i]; B[i] = X[i] // -4; C[i] = where(X[i] < Z[i], X[i], 2); D[i] = pow(X[i], Z[i]);"
    "E[i] = X[i] % 3; F[i] = clamp(X[i], -1, Z[i]); G[i] = i * X[i]; H[i] = where(i % 3 == 1, X[i], size(i))",
    "A[i] = X[i] & Z[i]; B[i] = X[i] | Z[i]; C[i] = X[i] ^ Z[i]; D[i] = ~X[i]; E[i] = X[i] << Z[i]; F[i] = X[i] >> "
    "Z[i];"
    "G[i] = Z[i] >> 2 << size(i) - 208; H[i] = X[i] << Z[i] * 40 & -2",
};

static void test_integer_operations(void **state)
{
    static const md_dtype types[] = {MD_I64, MD_I32, MD_U8, MD_I8, MD_I16, MD_U16, MD_U32};
    char formula[1024];
    for (int32_t t = 0; t < MD_COUNT(types); t++)
        for (int32_t g = 0; g < MD_COUNT(int_groups); g++)
            if (is_taken(*state, t + g))
                run_both(*state, (variant_case){.formula = int_groups[g], .dims = "i=211", .dtype = types[t]});
    for (md_fx_op op = MD_FX_NO_OP; next_functions(formula, sizeof formula, &op, MD_I64);)
        run_both(*state, (variant_case){.formula = formula, .dims = "i=211", .dtype = MD_I64});
    variant_case c = {int_groups[0], .dims = "i=211", .dtype = MD_I64, .low = INT64_MAX - 3, .high = INT64_MAX};
    run_both(*state, c); /* wrapping and the corners of division */
    run_both(*state,
             (variant_case){int_groups[2], .dims = "i=211", .dtype = MD_I64, .low = INT64_MIN, .high = INT64_MIN + 3});
}

static void test_bool_operations(void **state)
{
    variant_case c = {
        "A[i] = X[i] and Z[i]; B[i] = X[i] or Z[i]; C[i] = not X[i]; D[i] = X[i] + Z[i]; E[i] = X[i] < Z[i];"
        "F[i] = where(X[i], Z[i], not Z[i]); G[i] = min(X[i], Z[i]); H[i] = max(X[i], Z[i])",
        .dims = "i=211", .dtype = MD_BOOL};
    run_both(*state, c);
    c.formula = "A[i] = X[i] <= Z[i]; B[i] = X[i] == Z[i]; C[i] = X[i] >= Z[i]; D[i] = X[i] != Z[i]; E[i] = -X[i];"
                "F[i] = X[i] * 0.5; G[i] = exp(X[i]); H[i] = X[i] > Z[i]";
    run_both(*state, c);
    c.formula = "A[i] = X[i] & Z[i]; B[i] = X[i] | Z[i]; C[i] = X[i] ^ Z[i]; D[i] = ~X[i]; E[i] = X[i] << 2";
    run_both(*state, c);
}

/* Every dtype stored as every other, and cast to every other. */
static void test_conversions(void **state)
{
    static const md_dtype types[] = {MD_F32, MD_F64, MD_F16,    MD_BF16,   MD_I32, MD_I64, MD_U8, MD_BOOL, MD_I8,
                                     MD_I16, MD_U16, MD_F8E4M3, MD_F8E5M2, MD_U32, MD_U64, MD_I4, MD_U4};
    static const char *const formulas[] = {
        "A:f16[i] = X[i]; B:bf16[i] = X[i]; C:i32[i] = X[i]; D:u8[i] = X[i]; E:bool[i] = X[i]; F:i64[i] = X[i]",
        "A[i] = f16(X[i]); B[i] = bf16(X[i]); C[i] = i32(X[i]); D[i] = u8(X[i]); E[i] = bool(X[i]); F[i] = i64(X[i]);"
        "G[i] = f64(X[i]); H[i] = f32(X[i])",
        "A:f8e4m3[i] = X[i]; B:f8e5m2[i] = X[i]; C:i8[i] = X[i]; D:i16[i] = X[i]; E:u16[i] = X[i]; F:u32[i] = X[i];"
        "G:u64[i] = X[i]; H:f64[i] = X[i]",
        "A[i] = f8e4m3(X[i]); B[i] = f8e5m2(X[i]); C[i] = i8(X[i]); D[i] = i16(X[i]); E[i] = u16(X[i]);"
        "F[i] = u32(X[i]); G[i] = u64(X[i]); H[i] = f8e4m3(size(i) * 0.37) + u8(i8(X[i]))",
        "A:i4[i] = X[i]; B:u4[i] = X[i]; C[i] = i4(X[i]); D[i] = u4(X[i]); E[i] = u4(i4(X[i])) + i4(size(i))"};
    for (int32_t t = 0; t < MD_COUNT(types); t++)
        for (int k = 0; k < 2; k++) { /* in the second round magnitudes that round, overflow and saturate */
            variant_case c = {.dims = "i=211",
                              .dtype = types[t],
                              .has_specials = true,
                              .scale = k ? 1e5 : 2,
                              .low = k ? -3000000000 : 0,
                              .high = k ? 3000000000 : 0,
                              .tolerance = 1e-15};
            for (int32_t n = 0; n < MD_COUNT(formulas); n++) {
                c.formula = formulas[n];
                if (!is_taken(*state, t + n))
                    continue;
                run(*state, c, "pointwise/flat0_strided0_nontemporal0_transpose0");
                if (n % 2 == t % 2) /* one by one each dtype is stored or cast, and to half of the others */
                    run(*state, c, "nest");
            }
        }
}

static void test_layouts(void **state)
{
    static const char *const formulas[] = {
        "Y[i,j] = X[i,j] * b[j] + c[i]",
        "Y[i,j] = X[j,i] + 1",
        "Y[i,j] = X[j,i] * 0.5 + Z[i,j]",
        "Y[a,b,c] = X[a,b,c] * s[c] + t[a,c] - u[b]",
        "Y[a,b,c,d] = X[d,b,c,a] + Z[b,c]",
        "Y[i] = X[2 * i] - X[2 * i + 1]",
        "Y[i,j] = X[i + j] * w[i]",
        "Y[i] = X[i // 3] * 2 + Z[i % 3]",
        "Y[i,j] = X[i,j] * 2; Z[j,i] = X[i,j] + 1",
        "L[] = M[] * 2",
    };
    static const char *const dims[] = {"i=5,j=67,a=3,b=4,c=19,d=2", "i=1,j=1,a=1,b=1,c=1,d=1",
                                       "i=33,j=16,a=2,b=1,c=32,d=3", "i=0,j=3,a=2,b=0,c=5,d=1"};
    for (int32_t i = 0; i < MD_COUNT(formulas); i++)
        for (int k = 0; k < MD_COUNT(dims) && is_taken(*state, i); k++)
            for (int layout = k < 1 ? VARIANT_PACKED : k; layout <= (k < 1 ? VARIANT_TURNED : k); layout++) {
                variant_case c = {.formula = formulas[i], .dims = dims[k], .layout = (variant_layout)layout, .seed = 1};
                run_all(*state, &c, "pointwise");
            }
}

static void test_guards(void **state)
{
    static const char *const formulas[] = {
        "Y[i,j] = where(j <= i, X[i,j], -inf)",
        "Y[i,j] = where(j > 0, X[i,j-1], 7) + where(i > 0, X[i-1,j], 1)",
        "Y[i,j] = where(j > 0 and i > 0, where(j > 1, X[i-1,j-2], X[i-1,j-1]), X[i,j])",
        "Y[i,j] = where(j < 13, P[i,j] + 1, K[i,j-13])",
        "Y[i,j] = where(i >= size(P.0), K[i-size(P.0),j], 2 * P[i,j])",
        "Y[i,j] = where(j + 1 < size(j), X[i,j+1], X[i,j]) - X[i,j]",
        "Y[i,j] = where(X[i,j] > 0, where(j >= 2, X[i,j-2], 0.5), exp(X[i,j]))",
    };
    fixture *f = *state;
    for (int32_t i = 0; i < MD_COUNT(formulas); i++)
        for (int layout = VARIANT_PACKED; layout <= VARIANT_TURNED; layout += 2) {
            variant_case c = {
                .formula = formulas[i], .dims = "i=9,j=53", .layout = (variant_layout)layout, .seed = f->seed};
            run_all(f, &c, "pointwise");
            run(f, c, "nest");
        }
}

static void test_scalars(void **state)
{
    run_both(*state, (variant_case){.formula = "scalar lr, eps; Y[i] = X[i] * lr + eps", .dims = "i=77"});
    run_both(*state, (variant_case){
                         .formula = "scalar lr:f64, k:i64; Y[i] = X[i] * lr + k * i", .dims = "i=77", .dtype = MD_F64});
}

/* ---- Loops inside expressions, and stages that only a nest takes as they are */

static void test_nests(void **state)
{
    static const char *const formulas[] = {
        "Y[i,j] = exp(X[i,j] - max[k](X[i,k])) / sum[l](exp(X[i,l] - max[k](X[i,k])))",
        "M[i] = mean[j](X[i,j]); V[i] = var[j](X[i,j]); A[i] = argmax[j](X[i,j]); B[i] = argmin[j](X[i,j])",
        "A[i] = argmax[j,k](X[i,j,k]); B[k] = argmin[i,j](X[i,j,k]); C[] = argmax[i,j](X[i,j,0])",
        ("P[i] = prod[j](X[i,j]); Q[i] = max[j](X[i,j]); R[i] = min[j](X[i,j]); S[i] = any[j](X[i,j] > 1.9); T[i] = "
         "all[j](X[i,j] < 1.9)"),
        "Y[i,j] = cumsum[j](X[i,j]) * 2",
        "Y[i,j] = cumprod[j](X[i,j], exclusive); Z[i,j] = cummax[j](X[i,j], reverse)",
        "Y[i,j] = cummin[j](X[i,j] * X[i,j], exclusive, reverse)",
        "Y[i,n] = gelu(sum[k](A[i,k] * W[n,k]) + bias[n])",
        "Y[i,n] = sum[k](A[i,k] * W[n,k]) * sigmoid(sum[k](A[i,k] * V[n,k]))",
        "Y[i,j] = cumsum[j](sum[k](A[i,k] * C[k,j])) + j",
        "L[] = sum[i,j](X[i,j] * X[i,j])",
        "Y[i] = sum[j,k](A[i,j] * B[j,k] * C[i,k])",
        "Y[c,y,x] = sum[a,r,s](I[a,y+r,x+s] * W[c,a,r,s])",
        "Y[i] = sum[j](where(j <= i, X[i,j] * where(j > 0, X[i,j-1], 1), 0))",
    };
    fixture *f = *state;
    for (int32_t i = 0; i < MD_COUNT(formulas); i++) {
        variant_case c = {.formula = formulas[i], .dims = "i=8,j=4,k=3,n=11,y=12,x=5,c=6,a=2", .tolerance = 1e-4};
        c.sizes = strstr(formulas[i], "W[c") ? "r=3,s=2" : NULL;
        run(f, c, "nest");
    }
}

/* Every config for one kind of bounds, for the others each value of each of two fields. */
static void run_bounded(fixture *f, const variant_case *c, const char *family, const char *field)
{
    char text[1024] = "", name[96];
    if (c->bounds == 0)
        run_all(f, c, family);
    for (int strided = 0; c->bounds != 0 && strided < 2; strided++) {
        snprintf(name, sizeof name, "%s/strided%d_%s%d", family, strided, field, (strided + (int)c->bounds) % 2);
        if (!variant_check(text, sizeof text, NULL, f->dev, c, name))
            fail_msg("%s", text);
    }
    run(f, *c, "nest");
}

static void test_gathers(void **state)
{
    static const char *const formulas[] = {
        "Y[t,d] = E[ids[t],d]",
        "Y[t] = E[ids[t]] * 2",
        "Y[t,d] = E[d,ids[t]] + E[ids[t],d]",
        "Y[t,d] = where(ids[t] >= 0, E[ids[t],d], 0)",
        "Y[t,d] = E[ids[t],d] * T[ids[t], idx[d]]",
        "Y[t] = E[ids[idx[t]]]",
        "Y[t] = where(w[t] > 0, E[ids[t]], -1)",
        "Y[t,d] = E[ids[t] % 4, d]",
    };
    fixture *f = *state;
    for (int32_t i = 0; i < MD_COUNT(formulas); i++)
        for (int k = 0; k < 2; k++)
            for (int b = 0; b < (k ? 3 : 1); b++) {
                if (!is_taken(f, i + b))
                    continue;
                variant_case c = {.formula = formulas[i],
                                  .dims = strstr(formulas[i], ",d]") ? "t=41,d=37" : "t=141",
                                  .bounds = (md_bounds)b,
                                  .low = k ? -3 : 0,
                                  .high = 8,
                                  .layout = k ? VARIANT_PADDED : VARIANT_PACKED,
                                  .seed = f->seed};
                run_bounded(f, &c, "gather", "nontemporal");
            }
}

/* Subscripts that no call can prove to lie inside: the arm that is taken is checked, the other is not read. */
static void test_checked(void **state)
{
    static const char *const formulas[] = {
        "Y[t,d] = where(w[t,d] > 0, E[t,d-1], -1)",
        "let C:bool[d] = d > 0; Y[t,d] = where(C[d], E[t,d-1], 0)",
        "Y[t,d] = where(w[t,d] > 0, E[t-2,2*d+1], 0) + where(w[t,d] > 0, E[d,t+1], 1)",
        "Y[t,d] = where(t < 0 or d > 0, E[t,d-1], 0)",
        "Y[t,d] = where(w[t,d] > 0, where(v[t] > 0, E[t,d-3], 4), E[t+1,d])",
        "Y[t] = where(w[t] > 0, E[t+3], -1)",
        "Y[t,d] = where(v[t] > 0, E[t-1,3], 0) * where(t * d > 8, E[t*d-9,d], 1)",
        "scalar n:i64; Y[t,d] = E[t*d,d+n] + E[clamp(t+n,0,38),abs(d-2)]",
        "Y[t,d] = E[(t*7+d*d)%39,min(d,35)] + E[max(t-3,0),where(d%2==0,d,d-1)]",
        "Y[t,d] = where(w[t,d] > 0, E[ids[t],d+1], 0)",
    };
    fixture *f = *state;
    for (int32_t i = 0; i < MD_COUNT(formulas); i++)
        for (int k = 0; k < 2; k++)
            for (int b = 0; b < 3; b++) {
                if (!is_taken(f, i + b))
                    continue;
                variant_case c = {.formula = formulas[i],
                                  .dims = strstr(formulas[i], ",d]") ? "t=41,d=37,E.0=39,E.1=36" : "t=141",
                                  .bounds = (md_bounds)b,
                                  .high = 36,
                                  .layout = k ? VARIANT_PADDED : VARIANT_PACKED,
                                  .seed = f->seed};
                run_bounded(f, &c, "gather", "nontemporal");
            }
}

static void test_scatters(void **state)
{
    static const char *const formulas[] = {
        "G[ids[i],d] += D[i,d]", "G[ids[i]] += D[i]",           "G[ids[i],d] max= D[i,d]", "G[d,ids[i]] min= D[i,d]",
        "G[ids[i],d] = D[d]",    "G[ids[i], idx[d]] += D[i,d]", "G[ids[i],d] *= D[i,d]",   "G:i32[ids[i]] *= D:i32[i]",
    };
    fixture *f = *state;
    for (int32_t i = 0; i < MD_COUNT(formulas); i++)
        for (int k = 0; k < 3; k++) {
            if (!is_taken(f, i + k))
                continue;
            bool has_d = strstr(formulas[i], "d]") || strstr(formulas[i], "[d");
            variant_case c = {.formula = formulas[i],
                              .dims = has_d ? k ? "i=57,d=37" : "i=700,d=90" : "i=1000",
                              .bounds = (md_bounds)k,
                              .low = k ? -2 : 0,
                              .high = 13,
                              .layout = k == 1 ? VARIANT_SPREAD : VARIANT_PACKED,
                              .seed = f->seed,
                              .tolerance = 1e-4};
            run_bounded(f, &c, "scatter", "owner");
        }
}

/* Sums in bins of their own, of every type: one element for all lanes, rows of lanes, lanes apart; one bin for each
 * element or four; indices outside. */
static void test_bins(void **state)
{
    static const char *const formulas[] = {
        "G[ids[i]] += D[i]",
        "G:f64[ids[i]] += D:f64[i]",
        "G:i64[ids[i]] += 1",
        "G:u8[ids[i]] += D:i32[i]",
        "G:bf16[ids[i]] += D:bf16[i]",
        "G[ids[i],d] += D[i,d]",
        "G[d,ids[i]] += D[i,d] * w[i]",
        "G[ids[i],idx[d]] += D[i,d]",
        "G[0*ids[i]] += D[i]",
        "size j=700; G[ids[i],j] += D[i]",
    };
    fixture *f = *state;
    for (int32_t i = 0; i < MD_COUNT(formulas); i++)
        for (int k = 0; k < 4; k++) {
            if (!is_taken(f, i + k))
                continue;
            variant_case c = {.formula = formulas[i],
                              .dims = strchr(formulas[i], ',') ? "i=170,d=37"
                                      : k % 2                  ? "i=1003"
                                                               : "i=70000",
                              .bounds = (md_bounds)(k % 3),
                              .low = k % 3 ? -2 : 0,
                              .high = 13,
                              .seed = f->seed,
                              .tolerance = strstr(formulas[i], "bf16") ? 0.01 : 1e-4};
            run_all(f, &c, "scatter_bins");
        }
}

static void test_golden(void **state)
{
    static const struct {
        const char *file, *formula, *variant;
    } golden[] = {
        {"affine.txt", "Y[i,j] = X[i,j] * s[j] + t[i]", "pointwise/flat0_strided0_nontemporal0_transpose0"},
        {"causal.txt", "Y:bf16[i,j] = where(j <= i, f32(X[i,j]), -inf)",
         "pointwise/flat0_strided1_nontemporal0_transpose0"},
        {"embedding.txt", "Y[t,d] = E[ids[t],d] * 2", "gather/strided0_nontemporal0"},
    };
    fixture *f = *state;
    md_dev dev = *f->dev;
    dev.facts.vector_bytes = 64;
    for (int32_t i = 0; i < MD_COUNT(golden); i++) {
        variant_case c = {.formula = golden[i].formula};
        md_strbuf text = {0};
        char path[512], want[16384];
        assert_ok(variant_text(&text, &dev, &c, golden[i].variant));
        const char *start = strstr(md_strbuf_text(&text), "typedef struct md_params");
        assert_non_null(start);
        snprintf(path, sizeof path, "%s/%s", MD_GOLDEN, golden[i].file);
        FILE *file = fopen(path, getenv("MD_UPDATE_GOLDEN") ? "w+" : "r");
        assert_non_null(file);
        if (getenv("MD_UPDATE_GOLDEN")) {
            fputs(start, file);
            rewind(file);
        }
        want[fread(want, 1, sizeof want - 1, file)] = '\0';
        fclose(file);
        assert_string_equal(start, want);
        md_strbuf_finish(&text);
    }
}

int main(int argc, char **argv)
{
    is_full = argc > 1 && strcmp(argv[1], "--full") == 0;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_golden),
        cmocka_unit_test(test_conversions),
        cmocka_unit_test(test_real_operations),
        cmocka_unit_test(test_integer_operations),
        cmocka_unit_test(test_bool_operations),
        cmocka_unit_test(test_layouts),
        cmocka_unit_test(test_guards),
        cmocka_unit_test(test_scalars),
        cmocka_unit_test(test_nests),
        cmocka_unit_test(test_gathers),
        cmocka_unit_test(test_checked),
        cmocka_unit_test(test_scatters),
        cmocka_unit_test(test_bins),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
