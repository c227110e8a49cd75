"""Short rules of games that OpenSpiel names but does not explain, keyed by its short name."""

from __future__ import annotations

from collections.abc import Mapping

PROSE: Mapping[str, str] = {
    "2048": "Slide all tiles of the grid in one direction; equal tiles that meet merge into their sum, which counts.",
    "amazons": "Move an amazon like a chess queen, then let it shoot an arrow the same way, which blocks a field for "
    "good. Whoever cannot move any more has lost. The parts of a move are asked for one after the other.",
    "backgammon": "Both players roll dice and bring their checkers home and off the board; first to do so wins.",
    "battleship": "Each player hides ships on their own board; then they shoot at each other's boards in turn.",
    "blackjack": "Draw cards to come closer to 21 than the dealer, but not above it.",
    "blotto": "Each player splits their coins over the fields; more coins win a field, more fields win the game.",
    "catch": "Move the paddle at the bottom left and right, so that it is below the falling ball when this lands.",
    "checkers": "Men move one field diagonally forward and take by jumping over, which is compulsory; a man on the "
    "last row becomes a king. Whoever cannot move has lost.",
    "chess": "Chess as everybody knows it; moves are written in the short algebraic form, as in Nf3.",
    "clobber": "A stone moves onto a neighbouring field with an opposing stone and removes it. Whoever cannot move "
    "loses.",
    "coin_game": "Walk on the grid and collect coins; each player has a preferred colour that the others do not know.",
    "dark_hex": "Hex, but a player does not see the opponent's stones; trying an occupied cell reveals that stone.",
    "dots_and_boxes": "Draw lines between dots, horizontal h or vertical v, by row and column; who closes a box owns "
    "it and draws again. More boxes win.",
    "first_sealed_auction": "Each player has a private value for the thing on sale and bids once; the highest bid "
    "wins, and its player gains their value less the bid.",
    "go": "Go: surround territory and stones; stones without liberties are taken. Pass when nothing is left to do.",
    "go_fish": "Ask another player for a rank; they hand over all cards of it, or you fish one. Collect full books.",
    "gomoku": "Put a stone on an empty field; five in a row win.",
    "goofspiel": "In each round a point card is turned up and every player bids one of their cards, each once only; "
    "the highest bid takes the point card, equal ones nobody. More points win.",
    "hearts": "A trick-taking game: follow suit if you can. Hearts and the queen of spades cost points.",
    "hex": "The players put stones on a rhombus of hexagons in turn. Player 0 (x) connects top and bottom, player 1 "
    "(o) left and right; a complete chain wins. In a cell's name the letter is the column and the number the row.",
    "kuhn_poker": "Each player antes 1 chip and gets one card, numbered from 0, the lowest. A player passes or bets 1 "
    "chip; after a bet, to pass is to fold and to bet is to call. The higher card wins the pot.",
    "lewis_signaling": "Player 0 sees the state of the world and sends a signal; player 1 sees the signal alone and "
    "names the state. Both win if it is right.",
    "lines_of_action": "A piece moves in a line exactly as many fields as there are pieces in it. Connect all yours.",
    "mancala": "Sow the seeds of one of your pits around the board; those in your store count.",
    "matching_pennies_3p": "Player 0 wants to match player 1, player 1 player 2, and player 2 not to match player 0.",
    "mnk": "Put a mark on an empty field; a line of k marks wins.",
    "nim": "Take any number of matches from one pile. In the usual form whoever takes the last one loses "
    "(is_misere=True); otherwise they win.",
    "nine_mens_morris": "Place your men, then slide them; three in a row, a mill, take an opposing man away.",
    "oshi_zumo": "Both players bid coins at the same time to push a wrestler over the opponent's end of the field.",
    "othello": "Put a disc so that it encloses opposing ones in a line, which turn over. More discs win at the end.",
    "oware": "Sow the seeds of one of your houses; bring houses of the opponent to two or three seeds to take them.",
    "pentago": "Put a marble on the board and turn a quarter of it; five in a row win.",
    "phantom_ttt": "Tic-Tac-Toe, but a player does not see the opponent's marks; trying an occupied cell reveals it.",
    "pig": "Roll as often as you like: the points add up, but a 1 loses those of this turn. Stop to keep them.",
    "sheriff": "A smuggler packs illegal goods and offers a bribe; the sheriff decides whether to inspect.",
    "solitaire": "Klondike solitaire: build the suits up from the ace.",
    "tic_tac_toe": "Put your mark on an empty cell; three in a row, column or diagonal win. x begins. A move is "
    "written with the mark and (row, column), both from 0.",
    "tiny_hanabi": "Each player gets a card that the others do not see and plays one action, in turn; all get the same "
    "points, which depend on cards and actions together.",
    "trade_comm": "Each player has an item, hidden from the other; they talk once each and then both name a trade.",
    "ultimate_tic_tac_toe": "Nine Tic-Tac-Toe boards; your cell says on which board the opponent plays next. Three "
    "won boards in a line win.",
    "y": "Put stones on a triangle of hexagons; a chain that touches all three sides wins.",
    "yacht": "Roll dice and score them in one category each.",
}
