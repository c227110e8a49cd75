"""SmolLM2-135M in the ultimatum game, as it is and after training, with controls of its memory."""
