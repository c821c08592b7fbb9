/* SPDX-License-Identifier: Apache-2.0
 *
 * cadre run: starts somebody's own program on N ranks of this machine.
 */
#include "base/status.h"
#include "cli/cli.h"

int cli_run(const cli_call *call) {
    int ranks = 1;
    cadre_status st = cli_ranks(call, 1, &ranks);
    if (!st && (!call->rest || !call->rest[0]))
        st = CADRE_FAIL(CADRE_EUSAGE,
                        "run takes a program after --: cadre run --ranks 2 -- ./program arguments");
    if (st) return cli_fail(call, st);
    return cli_supervise(call, ranks, NULL, NULL);
}
