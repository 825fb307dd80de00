/* md_agree over MPI: run by run_mpi.py, which reads what rank 0 prints. Arguments: what the ranks do (equal, other,
 * late, time), and how many shapes each has met. */
#include <md/md.h>
#include <md/mpi.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static int take(void *user, const char *text, size_t n)
{
    return fwrite(text, 1, n, user) != n;
}

/* Another variant than its own for all shapes. */
static md_status choose_otherwise(md_context *context, md_op *op)
{
    char *text = NULL, *changed = NULL;
    size_t n = 0, n_changed = 0;
    FILE *from = open_memstream(&text, &n), *to = open_memstream(&changed, &n_changed);
    md_status status = md_choices_export(context, take, from);
    fclose(from);
    char *at = text, *mark;
    while ((mark = strstr(at, "\"variants\":[\"")) != NULL) {
        char *name = mark + strlen("\"variants\":[\""), *end = strchr(name, '"');
        const char *other = md_op_variant(op, 0, 0);
        if (strlen(other) == (size_t)(end - name) && !strncmp(other, name, (size_t)(end - name)))
            other = md_op_variant(op, 0, 1);
        fwrite(at, 1, (size_t)(name - at), to);
        fputs(other, to);
        at = end;
    }
    fputs(at, to);
    fclose(to);
    if (status == MD_OK)
        status = md_choices_import(NULL, context, changed);
    free(text);
    free(changed);
    return status;
}

static md_status meet(md_op *op, int32_t n_shapes)
{
    static float x[2048 * 8], y[2048];
    md_status status = MD_OK;
    for (int32_t i = 0; i < n_shapes && status == MD_OK; i++) {
        const int64_t size[] = {i + 1, 8};
        const md_tensor ty = md_tensor_make(y, MD_F32, 1, size), tx = md_tensor_make(x, MD_F32, 2, size);
        const md_arg args[] = {md_t(&ty), md_t(&tx)};
        status = md_call(op, NULL, args, 2);
    }
    return status;
}

/* What this process computed, waiting in MPI included: it polls. */
static double cpu_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return 1e3 * (double)t.tv_sec + 1e-6 * (double)t.tv_nsec;
}

static int run(const char *what, int32_t n_shapes, int rank, int n_ranks)
{
    const md_context_options options = {.device = "host", .threads = 1};
    const md_op_options hints = {.hints = "(i=16,j=8) (i=1024,j=8)"};
    const int is_late = !strcmp(what, "late");
    md_context *context = NULL;
    md_op *op = NULL;
    md_agreement found = {0};
    md_status status = md_context_create(&context, &options);
    if (status == MD_OK)
        status = md_op_create(&op, context, "Y[i] = sum[j](X[i,j])", &hints);
    if (status == MD_OK)
        status = meet(op, n_shapes);
    if (status == MD_OK && rank == n_ranks - 1 && strcmp(what, "equal") != 0)
        status = choose_otherwise(context, op);
    if (status != MD_OK)
        fprintf(stderr, "rank %d: %s\n", rank, md_last_error());
    MPI_Barrier(MPI_COMM_WORLD);
    if (is_late && rank == n_ranks - 1)
        sleep(600); /* until another rank ends the program */
    const double start = MPI_Wtime(), cpu = cpu_ms();
    status = md_agree_mpi(&found, context, MPI_COMM_WORLD, is_late ? 1.0 + rank : 60.0);
    double ms[2] = {1e3 * (MPI_Wtime() - start), cpu_ms() - cpu};
    if (status != MD_OK && rank == 0) {
        printf("failed: %s: %s\n", md_status_name(status), md_last_error());
        fflush(stdout);
    }
    if (status == MD_TIMEOUT) {
        sleep(n_ranks > 2 && rank == 0 ? 1 : 0); /* the others time out, too */
        MPI_Abort(MPI_COMM_WORLD, 3);
    }
    double most[2] = {0.0, 0.0};
    uint64_t all[16][2];
    MPI_Reduce(ms, most, 2, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
    MPI_Allgather(found.digest, 16, MPI_BYTE, all, 16, MPI_BYTE, MPI_COMM_WORLD);
    int is_equal = 1;
    for (int r = 1; r < n_ranks; r++)
        is_equal = is_equal && !memcmp(all[r], all[0], sizeof all[0]);
    if (rank == 0)
        printf("ranks %d shapes %lld disputed %lld equal %d ms %.1f cpu %.1f\n", n_ranks, (long long)found.n_shapes,
               (long long)found.n_disputed, is_equal, most[0], most[1]);
    md_op_destroy(&op);
    md_context_destroy(&context);
    return status != MD_OK;
}

int main(int argc, char **argv)
{
    int rank = 0, n_ranks = 1;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &n_ranks);
    const int status = argc == 3 && n_ranks <= 16 ? run(argv[1], atoi(argv[2]), rank, n_ranks) : 2;
    MPI_Finalize();
    return status;
}
