/* Agreement of ranks over MPI: md_agree_mpi(&found, context, MPI_COMM_WORLD, 30.0). All of it is in this header, so the
 * library does not know MPI: compile with the program's own mpicc.
 *
 * Collective over the communicator, which is duplicated for the call, so no message of the program is met; only after a
 * deadline do ranks ask each other on the communicator itself, with the tags 28004 and 28005. A rank that does not come
 * within the time is named. MPI cannot take a collective back that has begun: after MD_TIMEOUT save what you need and
 * call MPI_Abort. Needs MPI 3. Call it on a thread that may call MPI.
 * SPDX-License-Identifier: MIT */
#ifndef MD_MPI_H
#define MD_MPI_H

#include <md/md.h>

#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/select.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Bytes of a rank in one MPI_Iallgather; tags of a question after a deadline, and of its answer. */
enum { MD_MPI_PIECE = 1 << 24, MD_MPI_ASK = 28004, MD_MPI_HERE = 28005 };

/** What the exchange needs. */
typedef struct md_mpi_group {
    MPI_Comm program, comm; /* the caller's; its duplicate */
    int rank, n_ranks;
    int is_late; /* the communicator could not be duplicated */
    int is_broken; /* something did not end, so nothing of MPI is freed */
} md_mpi_group;

/* select(), because nanosleep() is not declared in a program of strict C11. */
static inline void md_mpi_nap(int microseconds)
{
    struct timeval nap = {0, 0};
    nap.tv_usec = microseconds;
    select(0, NULL, NULL, NULL, &nap);
}

static inline void md_mpi_say(const md_mpi_group *group, int to, int tag)
{
    MPI_Request request;
    if (MPI_Isend(NULL, 0, MPI_BYTE, to, tag, group->program, &request) == MPI_SUCCESS)
        MPI_Request_free(&request);
}

/* Takes a message with this tag, if there is one: who sent it; -1. */
static inline int md_mpi_hear(const md_mpi_group *group, int tag)
{
    int is_there = 0;
    MPI_Status status;
    if (MPI_Iprobe(MPI_ANY_SOURCE, tag, group->program, &is_there, &status) != MPI_SUCCESS || !is_there)
        return -1;
    MPI_Recv(NULL, 0, MPI_BYTE, status.MPI_SOURCE, tag, group->program, MPI_STATUS_IGNORE);
    return status.MPI_SOURCE;
}

/* Nonzero: the request is done. Who asks meanwhile hears that this rank is there. */
static inline int md_mpi_wait(const md_mpi_group *group, MPI_Request *request, double end_s)
{
    int is_done = 0;
    for (int spins = 0; !is_done && (spins == 0 || MPI_Wtime() < end_s); spins++) {
        if (MPI_Test(request, &is_done, MPI_STATUS_IGNORE) != MPI_SUCCESS)
            return 0;
        if (is_done || spins < 200)
            continue;
        const int asks = md_mpi_hear(group, MD_MPI_ASK);
        if (asks >= 0)
            md_mpi_say(group, asks, MD_MPI_HERE);
        md_mpi_nap(20);
    }
    return is_done;
}

/* After a deadline: asks all ranks; those that wait answer, and so do those that ask. Who says nothing within a second
 * is missing. */
static inline void md_mpi_name_missing(const md_mpi_group *group, char *why)
{
    const double end_s = MPI_Wtime() + 1.0;
    char *heard = (char *)calloc((size_t)group->n_ranks, 1);
    int n = 1, missing = -1;
    for (int r = 0; heard && r < group->n_ranks; r++)
        if (r != group->rank)
            md_mpi_say(group, r, MD_MPI_ASK);
    while (heard && n < group->n_ranks && MPI_Wtime() < end_s) {
        const int here = md_mpi_hear(group, MD_MPI_HERE), asks = md_mpi_hear(group, MD_MPI_ASK);
        if (asks >= 0)
            md_mpi_say(group, asks, MD_MPI_HERE);
        n += here >= 0 && !heard[here];
        if (here >= 0)
            heard[here] = 1;
        n += asks >= 0 && !heard[asks];
        if (asks >= 0)
            heard[asks] = 1;
        else if (here < 0)
            md_mpi_nap(200);
    }
    for (int r = group->n_ranks - 1; heard && r >= 0; r--)
        missing = r == group->rank || heard[r] ? missing : r;
    if (missing >= 0)
        snprintf(why, MD_WHY_BYTES, "rank %d did not come in time (%d of %d ranks are there)", missing, n,
                 group->n_ranks);
    else
        snprintf(why, MD_WHY_BYTES, "the %d ranks did not all come within the time", group->n_ranks);
    free(heard);
}

/* The md_exchange.gather of MPI. */
static inline int32_t md_mpi_gather(void *user, void *all, const void *mine, size_t n_bytes, double seconds, char *why)
{
    md_mpi_group *group = (md_mpi_group *)user;
    const double end_s = MPI_Wtime() + seconds;
    char *piece = n_bytes > MD_MPI_PIECE ? (char *)malloc((size_t)group->n_ranks * MD_MPI_PIECE) : NULL;
    if (group->is_broken || (n_bytes > MD_MPI_PIECE && !piece)) {
        snprintf(why, MD_WHY_BYTES, "%s", group->is_broken ? "an earlier gather did not end" : "memory is short");
        free(piece);
        return 1;
    }
    group->is_broken = group->is_late;
    for (size_t at = 0; at < n_bytes && !group->is_broken; at += MD_MPI_PIECE) {
        const size_t rest = n_bytes - at, piece_bytes = MD_MPI_PIECE;
        const int n = (int)(rest < piece_bytes ? rest : piece_bytes);
        char *to = piece ? piece : (char *)all;
        MPI_Request request;
        group->is_broken = MPI_Iallgather((const char *)mine + at, n, MPI_BYTE, to, n, MPI_BYTE, group->comm,
                                          &request) != MPI_SUCCESS ||
                           !md_mpi_wait(group, &request, end_s);
        for (int r = 0; piece && !group->is_broken && r < group->n_ranks; r++)
            memcpy((char *)all + (size_t)r * n_bytes + at, piece + (size_t)r * (size_t)n, (size_t)n);
    }
    if (group->is_broken)
        md_mpi_name_missing(group, why);
    else
        free(piece); /* else MPI may still write there */
    return group->is_broken;
}

/** md_agree over a communicator. seconds 0: 30. As md_agree. */
static inline md_status md_agree_mpi(md_agreement *out, md_context *context, MPI_Comm comm, double seconds)
{
    md_mpi_group *group = (md_mpi_group *)calloc(1, sizeof *group);
    md_exchange exchange;
    MPI_Request request;
    memset(&exchange, 0, sizeof exchange);
    if (!group)
        return MD_OUT_OF_MEMORY;
    group->program = comm;
    MPI_Comm_rank(comm, &group->rank);
    MPI_Comm_size(comm, &group->n_ranks);
    exchange.rank = group->rank;
    exchange.n_ranks = group->n_ranks;
    exchange.seconds = seconds > 0.0 ? seconds : 30.0;
    exchange.gather = md_mpi_gather;
    exchange.user = group;
    const double start_s = MPI_Wtime();
    /* where a rank does not come, md_agree's first gather says so */
    group->is_late = MPI_Comm_idup(comm, &group->comm, &request) != MPI_SUCCESS ||
                     !md_mpi_wait(group, &request, start_s + exchange.seconds);
    exchange.seconds -= MPI_Wtime() - start_s;
    exchange.seconds = exchange.seconds > 1e-3 ? exchange.seconds : 1e-3;
    const md_status status = md_agree(out, context, &exchange);
    if (!group->is_late && !group->is_broken) { /* else MPI still refers to it */
        MPI_Comm_free(&group->comm);
        free(group);
    }
    return status;
}

#ifdef __cplusplus
}
#endif
#endif
