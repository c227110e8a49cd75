"""Results of `mage train --model words` in six small games, beside their exact values."""
