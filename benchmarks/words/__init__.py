"""What `mage-train --model words` learns in six small games, beside their exact values."""
