"""ALFWorld: rules and text (`game`), sources of games (`data`, `maker`, `plan`) and the engine (`engine`)."""
