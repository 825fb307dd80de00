/* Prints what the cost model says of products, rows and sums down columns, for scripts that compare it with recorded
 * times. A line of the input is
 *   BOARD OP DTYPE ROWS COLUMNS DEPTH VARIANT [ALGORITHM TILE SPLIT WAVES]
 * BOARD is 0 for an H200, 1 for an H100. Only products have a DEPTH, others 0. TILE is ROWSxCOLUMNS or the
 * library's number. A line of the output is the time by the
 * shape in us and, with an answer of cuBLASLt's heuristic, the time by the answer, else 0. */
#include "base/status.h"
#include "device/blas/blas.h"
#include "expr/catalogue.h"
#include "expr/formula.h"
#include "family/cuda/cuda.h"
#include "family/cuda/product/lib_cost.h"
#include "family/family.h"
#include "stage/stage.h"
#include "tune/tune.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct line {
    int board;
    char op[32], dtype[16], variant[128];
    int64_t rows, columns, depth;
    uint32_t algorithm;
    char tile[24];
    int32_t split;
    float waves;
} line;

static const char *formula_of(const char *op)
{
    static const char *const list[][2] = {
        {"linear", "Y[m,n] = sum[k](X[m,k] * W[n,k])"},
        {"matmul", "Y[m,n] = sum[k](X[m,k] * W[k,n])"},
        {"linear_bias_gelu", "Y[m,n] = gelu(sum[k](X[m,k] * W[n,k]) + B[n])"},
        {"linear_bias_gelu_tanh", "Y[m,n] = gelu_tanh(sum[k](X[m,k] * W[n,k]) + B[n])"},
        {"softmax", "Y[m,n] = exp(X[m,n] - max[k](X[m,k])) / sum[k](exp(X[m,k] - max[l](X[m,l])))"},
        {"layer_norm", "Y[m,n] = (X[m,n] - mean[k](X[m,k])) * rsqrt(var[k](X[m,k]) + 1e-5) * G[n] + B[n]"},
        {"rms_norm", "Y[m,n] = X[m,n] * rsqrt(mean[k](X[m,k] * X[m,k]) + 1e-6) * G[n]"},
        {"var", "Y[m] = var[n](X[m,n])"},
        {"column_sum", "Y[n] = sum[m](X[m,n])"},
        {"column_sums", "A[n] = sum[m](X[m,n] * Z[m,n]); B[n] = sum[m](X[m,n])"},
    };
    for (int32_t i = 0; i < MD_COUNT(list); i++)
        if (!strcmp(op, list[i][0]))
            return list[i][1];
    return NULL;
}

static md_status predict(double *us, const line *l, const md_dev_facts *facts, const md_st_program *program,
                         const md_fx_formula *formula)
{
    const md_fa_family *family = NULL;
    md_fa_config config;
    int64_t size[MD_FX_MAX_DIMS] = {0};
    MD_TRY(md_fa_parse(&family, &config, MD_DEV_CUDA, l->variant));
    for (int32_t d = 0; d < formula->n_dims; d++) {
        const char name = formula->dim[d].name[0];
        size[d] = name == 'm' ? l->rows : name == 'n' ? l->columns : l->depth;
    }
    const md_fa_target target = {program, 0, facts};
    *us = md_tn_predict_us(&target, family, &config, size);
    return MD_OK;
}

static double answered(const line *l, const md_dev_facts *facts, md_dtype dtype)
{
    const bool is_matmul = !strcmp(l->op, "matmul");
    const char *rank = strstr(l->variant, "rank");
    const md_dev_cuda_gemm what = {.rank = rank ? (int32_t)strtol(rank + 4, NULL, 10) : 0,
                                   .rows = l->rows,
                                   .columns = l->columns,
                                   .depth = l->depth,
                                   .batch = 1,
                                   .leading = {l->depth, is_matmul ? l->columns : l->depth, l->columns},
                                   .in = dtype,
                                   .out = dtype,
                                   .epilogue = strstr(l->op, "gelu") ? 1 : 0,
                                   .alignment = {16, 16, 16}};
    md_dev_cuda_gemm_answer answer = {.algorithm = l->algorithm, .split = l->split, .waves = l->waves};
    if (sscanf(l->tile, "%" SCNd32 "x%" SCNd32, &answer.rows, &answer.columns) != 2)
        (void)md_blas_tile(&answer.columns, &answer.rows, (uint32_t)strtoul(l->tile, NULL, 10));
    return md_fa_cuda_answer_us(facts, &what, &answer);
}

/* Formulas seen so far. */
static struct {
    char key[64];
    md_fx_formula *formula;
    md_st_program *program;
} known[16];

static md_status program_of(int32_t *out, const line *l, md_dtype dtype)
{
    char key[64];
    int32_t i = 0;
    snprintf(key, sizeof key, "%s %d", l->op, (int)dtype);
    while (i < MD_COUNT(known) - 1 && known[i].formula && strcmp(known[i].key, key) != 0)
        i++;
    *out = i;
    if (known[i].formula)
        return MD_OK;
    const md_fx_options options = {.dtype = dtype};
    memcpy(known[i].key, key, sizeof key);
    MD_TRY(md_fx_formula_create(&known[i].formula, formula_of(l->op), &options));
    return md_st_program_create(&known[i].program, known[i].formula);
}

int main(void)
{
    md_dev_facts facts[2];
    char text[512];
    if (md_dev_cuda_assume_board(&facts[0], "sm_90a", 0) != MD_OK ||
        md_dev_cuda_assume_board(&facts[1], "sm_90a", 1) != MD_OK)
        return 1;
    while (fgets(text, sizeof text, stdin)) {
        line l = {.board = 0};
        const int n =
            sscanf(text, "%d %31s %15s %" SCNd64 " %" SCNd64 " %" SCNd64 " %127s %u %23s %d %f", &l.board, l.op,
                   l.dtype, &l.rows, &l.columns, &l.depth, l.variant, &l.algorithm, l.tile, &l.split, &l.waves);
        const md_dtype dtype = l.dtype[0] == 'b' ? MD_BF16 : MD_F32;
        double us = 0;
        int32_t i = 0;
        if (n < 7 || !formula_of(l.op) || program_of(&i, &l, dtype) != MD_OK ||
            predict(&us, &l, &facts[l.board != 0], known[i].program, known[i].formula) != MD_OK) {
            fprintf(stderr, "not understood: %s", text);
            return 1;
        }
        printf("%.4f %.4f\n", us, n >= 11 ? answered(&l, &facts[l.board != 0], dtype) : 0.0);
    }
    return 0;
}
