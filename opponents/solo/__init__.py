"""Reference players of the games for one player, in the learner's own seat."""
