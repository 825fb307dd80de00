/* A tensor-parallel pair of linear layers, a GPU for each rank: MPI starts the ranks and makes them agree on their
 * kernels, NCCL adds up their results, and one CUDA graph holds the two kernels and the sum.
 *
 *     make agree_nccl CUDA=/usr/local/cuda && mpirun -n 2 ./agree_nccl
 *
 * Exit status 77: there are fewer GPUs than ranks. Prints, with 2 ranks:
 *     2 ranks agree on 8 shapes
 *     4 graphs were replayed; the results are right */
#include <cuda_runtime_api.h>
#include <md/md.h>
#include <md/mpi.h>
#include <nccl.h>

#include <math.h>

enum { K = 256, HIDDEN = 512, BATCHES = 4, WARM_CALLS = 100 };

static const int64_t batches[BATCHES] = {1, 3, 17, 64};

static void check(int is_right, const char *why)
{
    if (is_right)
        return;
    fprintf(stderr, "%s\n", why);
    MPI_Abort(MPI_COMM_WORLD, 1);
}

static void check_md(md_status status)
{
    check(status == MD_OK, md_last_error());
}

static void check_cuda(cudaError_t error)
{
    check(error == cudaSuccess, cudaGetErrorString(error));
}

static void check_nccl(ncclResult_t result)
{
    check(result == ncclSuccess, ncclGetErrorString(result));
}

/* What a rank holds: columns of the first layer, rows of the second. */
typedef struct pair {
    int rank, n_ranks;
    md_context *context;
    md_op *up, *down;
    void *x, *h, *y; /* [64, K], [64, HIDDEN / n_ranks], [64, K] */
    void *w_up, *w_down; /* [HIDDEN / n_ranks, K], [K, HIDDEN / n_ranks] */
    ncclComm_t comm;
    cudaStream_t stream;
} pair;

/* The same numbers on every rank, between -1 and 1. */
static float number(int64_t i, int64_t j)
{
    return (float)((i * 37 + j * 101) % 127 - 63) / 64.0f;
}

static void *device_copy(md_context *context, const float *from, int64_t n)
{
    void *to = NULL;
    check_md(md_alloc(&to, context, (size_t)n * sizeof *from));
    check_md(md_copy(context, to, from, (size_t)n * sizeof *from));
    return to;
}

/* Elements (i + i0, j + j0) for i < n_i, j < n_j, on the device. */
static void *part(md_context *context, int64_t i0, int64_t n_i, int64_t j0, int64_t n_j, float scale)
{
    float *from = malloc((size_t)(n_i * n_j) * sizeof *from);
    check(from != NULL, "memory is short");
    for (int64_t i = 0; i < n_i; i++)
        for (int64_t j = 0; j < n_j; j++)
            from[i * n_j + j] = scale * number(i + i0, j + j0);
    void *to = device_copy(context, from, n_i * n_j);
    free(from);
    return to;
}

static void create(pair *p)
{
    char device[32];
    const int64_t own = HIDDEN / p->n_ranks, first = own * p->rank;
    snprintf(device, sizeof device, "cuda:%d", p->rank);
    const md_context_options options = {.device = device, .agrees = 1};
    check_md(md_context_create(&p->context, &options));
    check_md(md_op_create(&p->up, p->context, "Y[b,n] = gelu(sum[k](X[b,k] * W[n,k]))", NULL));
    check_md(md_op_create(&p->down, p->context, "Y[b,n] = sum[k](X[b,k] * W[n,k])", NULL));
    p->x = part(p->context, 0, 64, 0, K, 1.0f);
    p->h = part(p->context, 0, 64, 0, own, 0.0f);
    p->y = part(p->context, 0, 64, 0, K, 0.0f);
    p->w_up = part(p->context, first, own, 0, K, 1.0f / 16);
    p->w_down = part(p->context, 0, K, first, own, 1.0f / 22);
    check_cuda(cudaStreamCreateWithFlags(&p->stream, cudaStreamNonBlocking));
}

static void destroy(pair *p)
{
    void *const all[] = {p->x, p->h, p->y, p->w_up, p->w_down};
    for (size_t k = 0; k < sizeof all / sizeof *all; k++)
        md_free(p->context, all[k]);
    md_op_destroy(&p->up);
    md_op_destroy(&p->down);
    md_context_destroy(&p->context);
    check_cuda(cudaStreamDestroy(p->stream));
    check_nccl(ncclCommDestroy(p->comm));
}

static void linear(md_op *op, cudaStream_t stream, void *y, void *x, void *w, const int64_t bnk[3])
{
    const int64_t size_y[] = {bnk[0], bnk[1]}, size_x[] = {bnk[0], bnk[2]}, size_w[] = {bnk[1], bnk[2]};
    const md_tensor ty = md_tensor_make(y, MD_F32, 2, size_y), tx = md_tensor_make(x, MD_F32, 2, size_x);
    const md_tensor tw = md_tensor_make(w, MD_F32, 2, size_w);
    const md_arg args[] = {md_t(&ty), md_t(&tx), md_t(&tw)};
    check_md(md_call(op, stream, args, 3));
}

/* Two launches and the sum over the ranks, on the stream. */
static void call(const pair *p, int64_t batch)
{
    const int64_t own = HIDDEN / p->n_ranks;
    linear(p->up, p->stream, p->h, p->x, p->w_up, (int64_t[]){batch, own, K});
    linear(p->down, p->stream, p->y, p->h, p->w_down, (int64_t[]){batch, K, own});
    check_nccl(ncclAllReduce(p->y, p->y, (size_t)(batch * K), ncclFloat, ncclSum, p->comm, p->stream));
}

static void replay(const pair *p, int64_t batch)
{
    cudaGraph_t graph = NULL;
    cudaGraphExec_t ready = NULL;
    check_cuda(cudaStreamBeginCapture(p->stream, cudaStreamCaptureModeThreadLocal));
    call(p, batch);
    check_cuda(cudaStreamEndCapture(p->stream, &graph));
    check_cuda(cudaGraphInstantiate(&ready, graph, 0));
    check_cuda(cudaGraphLaunch(ready, p->stream));
    check_cuda(cudaStreamSynchronize(p->stream));
    check_cuda(cudaGraphExecDestroy(ready));
    check_cuda(cudaGraphDestroy(graph));
}

/* The largest difference of the last row from the layers in double. */
static double error_of(const pair *p, int64_t batch)
{
    static float y[64 * K];
    double h[HIDDEN], worst = 0;
    check_md(md_copy(p->context, y, p->y, (size_t)(batch * K) * sizeof *y));
    for (int64_t n = 0; n < HIDDEN; n++) {
        h[n] = 0;
        for (int64_t k = 0; k < K; k++)
            h[n] += (double)number(batch - 1, k) * number(n, k) / 16;
        h[n] = 0.5 * h[n] * (1 + erf(h[n] / sqrt(2.0)));
    }
    for (int64_t k = 0; k < K; k++) {
        double sum = 0;
        for (int64_t n = 0; n < HIDDEN; n++)
            sum += h[n] * number(k, n) / 22;
        worst = fmax(worst, fabs(sum - (double)y[(batch - 1) * K + k]));
    }
    return worst;
}

static void work(const pair *p)
{
    md_agreement found;
    double worst = 0;
    for (int run = 0; run < WARM_CALLS; run++)
        for (int k = 0; k < BATCHES; k++)
            call(p, batches[k]);
    check_cuda(cudaStreamSynchronize(p->stream));
    check_md(md_agree_mpi(&found, p->context, MPI_COMM_WORLD, 60.0)); /* before anything is captured */
    if (p->rank == 0)
        printf("%d ranks agree on %lld shapes\n", p->n_ranks, (long long)found.n_shapes);
    for (int k = 0; k < BATCHES; k++) {
        replay(p, batches[k]);
        worst = fmax(worst, error_of(p, batches[k]));
    }
    check(worst < 1e-3, "the results are wrong");
    if (p->rank == 0)
        printf("%d graphs were replayed; the results are right\n", BATCHES);
}

int main(int argc, char **argv)
{
    pair p = {0};
    ncclUniqueId id;
    int n_gpus = 0;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &p.rank);
    MPI_Comm_size(MPI_COMM_WORLD, &p.n_ranks);
    if (cudaGetDeviceCount(&n_gpus) != cudaSuccess || n_gpus < p.n_ranks || HIDDEN % p.n_ranks) {
        fprintf(stderr, "%d ranks need a GPU each, and a number that divides %d\n", p.n_ranks, HIDDEN);
        MPI_Finalize();
        return 77;
    }
    check_cuda(cudaSetDevice(p.rank));
    if (p.rank == 0)
        check_nccl(ncclGetUniqueId(&id));
    MPI_Bcast(&id, sizeof id, MPI_BYTE, 0, MPI_COMM_WORLD);
    check_nccl(ncclCommInitRank(&p.comm, p.n_ranks, id, p.rank));
    create(&p);
    work(&p);
    destroy(&p);
    MPI_Finalize();
    return 0;
}
