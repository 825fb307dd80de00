/* A call captured in a CUDA graph, replayed with new data, and the list of the kernels in the graph.
 * Exit status 77: there is no GPU here.
 * Prints:
 *     replay 1: the first result is 0.0010
 *     replay 2: the first result is 0.9566 */
#include <cuda_runtime_api.h>
#include <md/md.h>

#include <stdio.h>
#include <stdlib.h>

enum { ROWS = 4, COLUMNS = 1000 };

static void check(md_status status)
{
    if (status == MD_OK)
        return;
    fprintf(stderr, "%s\n", md_last_error());
    exit(1);
}

static void check_cuda(cudaError_t error)
{
    if (error == cudaSuccess)
        return;
    fprintf(stderr, "%s\n", cudaGetErrorString(error));
    exit(1);
}

static int print(void *file, const char *text, size_t n_bytes)
{
    return fwrite(text, 1, n_bytes, file) != n_bytes;
}

int main(void)
{
    static float host[ROWS * COLUMNS];
    const int64_t size[] = {ROWS, COLUMNS};
    void *x = NULL, *y = NULL;
    md_context *context = NULL;
    md_op *op = NULL;
    cudaStream_t stream = NULL;
    cudaGraph_t graph = NULL;
    cudaGraphExec_t ready = NULL;
    if (md_context_create(&context, &(md_context_options){.device = "cuda"}) != MD_OK) {
        fprintf(stderr, "%s\n", md_last_error());
        return 77;
    }
    check(md_op_create(&op, context, "softmax", NULL));
    check(md_alloc(&x, context, sizeof host));
    check(md_alloc(&y, context, sizeof host));
    const md_tensor tx = md_tensor_make(x, MD_F32, 2, size), ty = md_tensor_make(y, MD_F32, 2, size);
    const md_arg args[] = {md_t(&ty), md_t(&tx)};

    check(md_prepare(op, "i=4, j=1000")); /* picks, and waits for the best kernel: a capture only launches */
    check_cuda(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    check_cuda(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    check(md_call(op, stream, args, 2));
    check_cuda(cudaStreamEndCapture(stream, &graph));
    check(md_capture_list(context, stream, graph, 0, print, stderr));
    check_cuda(cudaGraphInstantiate(&ready, graph, 0));

    for (int run = 0; run < 2; run++) {
        for (int i = 0; i < ROWS * COLUMNS; i++)
            host[i] = run && i % COLUMNS == 0 ? 10.0f : 0.0f;
        check(md_copy(context, x, host, sizeof host));
        check_cuda(cudaGraphLaunch(ready, stream));
        check_cuda(cudaStreamSynchronize(stream));
        check(md_copy(context, host, y, sizeof host));
        printf("replay %d: the first result is %.4f\n", run + 1, (double)host[0]);
    }
    check_cuda(cudaGraphExecDestroy(ready));
    check_cuda(cudaGraphDestroy(graph));
    check_cuda(cudaStreamDestroy(stream));
    md_free(context, x);
    md_free(context, y);
    md_op_destroy(&op);
    md_context_destroy(&context);
    return 0;
}
