/* Ranks of one program that run the same kernels: each multiplies its own rows, then all agree, by MPI.
 *
 *     mpicc agree_mpi.c $(pkg-config --cflags --libs multidispatch) -o agree_mpi && mpirun -n 4 ./agree_mpi
 *
 * Prints, with 4 ranks:
 *     4 ranks have 4 shapes, and agree on all
 *     nothing is left to agree on */
#include <md/md.h>
#include <md/mpi.h>

enum { K = 64, N = 32 };

/* Each rank has its own batch, as ranks of a service do. */
static md_status call(md_op *op, int64_t rows)
{
    static float x[64 * K], w[N * K], y[64 * N];
    const int64_t size_x[] = {rows, K}, size_w[] = {N, K}, size_y[] = {rows, N};
    const md_tensor ty = md_tensor_make(y, MD_F32, 2, size_y), tx = md_tensor_make(x, MD_F32, 2, size_x);
    const md_tensor tw = md_tensor_make(w, MD_F32, 2, size_w);
    const md_arg args[] = {md_t(&ty), md_t(&tx), md_t(&tw)};
    return md_call(op, NULL, args, 3);
}

static md_status work(md_op *op, md_context *context, int rank)
{
    md_agreement found;
    int n_ranks = 0;
    MPI_Comm_size(MPI_COMM_WORLD, &n_ranks);
    md_status status = call(op, 1 + rank % 64);
    if (status == MD_OK)
        status = md_agree_mpi(&found, context, MPI_COMM_WORLD, 60.0);
    if (status == MD_OK && rank == 0)
        printf("%d ranks have %lld shapes, and agree on all\n", n_ranks, (long long)found.n_shapes);
    /* from now on every rank serves every batch alike; before a CUDA graph is captured is the time for this */
    if (status == MD_OK)
        status = call(op, 1 + (rank + 1) % n_ranks % 64);
    if (status == MD_OK)
        status = md_agree_mpi(&found, context, MPI_COMM_WORLD, 60.0);
    if (status == MD_OK && rank == 0 && found.n_changed == 0)
        printf("nothing is left to agree on\n");
    return status;
}

int main(int argc, char **argv)
{
    const md_context_options options = {.device = "host", .threads = 1, .agrees = 1}; /* on GPUs: "cuda:N" */
    md_context *context = NULL;
    md_op *op = NULL;
    int rank = 0;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    md_status status = md_context_create(&context, &options);
    if (status == MD_OK)
        status = md_op_create(&op, context, "Y[b,n] = sum[k](X[b,k] * W[n,k])", NULL);
    if (status == MD_OK)
        status = work(op, context, rank);
    if (status != MD_OK)
        fprintf(stderr, "rank %d: %s\n", rank, md_last_error());
    if (status == MD_TIMEOUT) /* a collective is pending: MPI_Finalize would wait for the rank that is missing */
        MPI_Abort(MPI_COMM_WORLD, 1);
    md_op_destroy(&op);
    md_context_destroy(&context);
    MPI_Finalize();
    return status != MD_OK;
}
