/* SPDX-License-Identifier: Apache-2.0
 *
 * Tier 1: one call. Trains what a run file describes, as `cadre train RUN.yaml` does.
 *
 *   cc 01_one_call.c -o one_call $(pkg-config --cflags --libs cadre)
 *   ./one_call examples/shakespeare.yaml                            one rank
 *   cadre run --ranks 2 -- ./one_call examples/shakespeare.yaml     two ranks in step
 */
#include <cadre/cadre.h>

int main(int argc, char **argv) {
    cadre_status st = cadre_train_file(argc > 1 ? argv[1] : "examples/shakespeare.yaml");
    if (st) cadre_error_print(stderr);
    return cadre_exit_code(st);
}
