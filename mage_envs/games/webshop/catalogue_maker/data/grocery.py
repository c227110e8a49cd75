"""Words of the department grocery: types, attributes, brands and texts of sellers.

`tables.py` documents the formats.
"""

NAME = "grocery"
ROOT = "Grocery & Gourmet Food"

TYPES = """
potato chips; plural; Snacks > Salty > Chips > Potato; chip flavor, net weight, pack; 13
    diet, fat, salt, cook, ingredient, snack use
tortilla chips; plural; Snacks > Salty > Chips > Tortilla; chip flavor, net weight, pack; 12
    diet, fat, salt, corn, ingredient, snack use
popcorn; mass; Snacks > Salty > Popcorn > Ready; sweet flavor, net weight, pack; 14
    diet, corn, popped, fat, ingredient, snack use
trail mix; mass; Snacks > Nuts > Mixes > Trail; net weight, pack; 17
    diet, nut, dried, sugar, energy, snack use
roasted almonds; plural; Snacks > Nuts > Almonds > Roasted; nut flavor, net weight, pack; 18
    diet, roast nut, salt, farm, energy, bag
protein bars; plural; Snacks > Bars > Protein > Nutrition; sweet flavor, pack; 24
    diet, protein, sugar, bar bite, energy, ingredient
granola bars; plural; Snacks > Bars > Granola > Chewy; sweet flavor, pack; 15
    diet, bar bite, sugar, grain, ingredient, snack use
dark chocolate bar; one; Sweets > Chocolate > Bars > Dark; choc flavor, net weight, pack; 11
    diet, cocoa, sugar, farm, choc make, gift
gummy candy; mass; Sweets > Candy > Gummies > Fruit; fruit flavor, net weight, pack; 13
    diet, gel, sugar, color source, candy shape, bag
*hard candy; mass; Sweets > Candy > Hard > Drops; fruit flavor, net weight, pack; 12
    diet, sugar, color source, wrap, candy shape, gift
butter cookies; plural; Sweets > Cookies > Butter > Tins; cookie flavor, net weight, pack; 14
    diet, bake, sugar, gift, ingredient, grain
*oat crackers; plural; Snacks > Salty > Crackers > Grain; chip flavor, net weight, pack; 9
    diet, grain, salt, fat, bake, snack use
breakfast cereal; mass; Breakfast > Cereal > Cold > Flakes; sweet flavor, net weight, pack; 12
    diet, grain, sugar, vitamins, protein, ingredient
instant oatmeal; mass; Breakfast > Cereal > Hot > Oatmeal; sweet flavor, pack; 13
    diet, grain, sugar, protein, oat cook, ingredient
maple syrup; mass; Breakfast > Syrups > Maple > Bottles; net volume, pack; 19
    diet, syrup grade, syrup bottle, farm, ingredient, gift
ground coffee; mass; Drinks > Coffee > Ground > Bags; coffee flavor, net weight, pack; 17
    roast, farm, caffeine, coffee acid, origin, bag
coffee pods; plural; Drinks > Coffee > Pods > Single Cup; coffee flavor, pack; 27
    roast, farm, caffeine, pod, origin, coffee acid
*green tea bags; plural; Drinks > Tea > Green > Bags; tea flavor, pack; 14
    farm, caffeine, tea leaf, tea bag, origin, ingredient
sparkling water; mass; Drinks > Water > Sparkling > Cans; fruit flavor, net volume, pack; 18
    diet, sugar, bubble, water extra, can, color source
pasta sauce; mass; Pantry > Sauces > Pasta > Tomato; sauce flavor, net weight, pack; 12
    diet, salt, sugar, sauce make, farm, sauce jar
"""

GROUPS = """
diet: a gluten free = w no gluten; t contains no gluten | a plant based = w nothing from animals; a vegan
    | a kosher certified = t is kosher | a keto friendly = f a keto diet; t fits my keto plan
fat: a low fat = w little fat | w avocado oil = t was cooked in avocado oil | w zero cholesterol = w no cholesterol
    | w zero transfat = w none of the bad fats
salt: a low sodium = w little salt | a lightly salted = w just a bit of salt | w sea salted = w salt from the sea
    | a unsalted kind = w no salt
cook: a kettle cooked = t was cooked in a kettle | a oven baked = t was baked and not fried
    | a air fried = t was fried with hot air
ingredient: a non gmo = w nothing genetically modified; t has no gmos
    | w natural flavors = w flavors that are not artificial
    | w simple ingredients = w few ingredients | w real fruit = w pieces of real fruit
snack use: f school lunch = f lunch boxes | f game night = f watching the game | f movie night = f when we watch films
    | f birthday party = f a party
corn: m white corn = m corn that is white | m blue corn = m corn that is blue | m yellow corn = m corn that is yellow
popped: a air popped = t was popped with air | w coconut fat = t was popped in coconut
    | a hull less = w hulls that do not stick
nut: w raw nuts = w nuts that are not roasted | w roasted nuts = w nuts that were roasted
    | w candied nuts = w sugar coated nuts
dried: w dried cherries = w cherries | w dried mango = w mango pieces | w golden raisins = w raisins
sugar: a sugar free = w no sugar; t has zero sugar | a low sugar = w little sugar
    | w cane juice = t is sweetened with cane
    | w monk fruit = t is sweetened with monkfruit
energy: a high fiber = w lots of fiber | w healthy fats = w good fats | a quick energy = t gives me energy fast
    | w low carb = w few carbs
roast nut: a dry roasted = t was roasted without oil | a honey roasted = t was roasted with honey
    | a smoke roasted = t was smoked
farm: a usda organic = a organic; t was grown organically | a fair trade = t treats farmers fairly
    | a family farmed = t comes from small farms
    | a single estate = t comes from one farm only
bag: w resealable bag = w a bag i can close again | w bulk bag = w a really big bag
    | w compostable bag = w a bag for the compost
protein: a high protein = w lots of protein | w whey isolate = w whey | w pea protein = w peas as the base
    | w egg whites = w white of egg
bar bite: a soft baked = t is soft to bite | a crunchy bite = a crunchy | w chewy center = a chewy
grain: m whole grain = m full grains | m ancient grains = m quinoa and spelt | m rolled oats = m oat flakes
    | m almond flour = m ground almonds
cocoa: w 70 cacao = w seventy percent cacao | w 85 cacao = w eighty five percent cacao | w milk cocoa = a mild and milky
choc make: a stone ground = t was ground by stones | a bean bar = t is made from bean to bar
    | w cocoa nibs = w bits of cocoa
gift: w gift tin = t comes in a tin | w gift basket = t comes in a basket | w holiday box = w a box for christmas
gel: w fruit pectin = w pectin | w beef gelatin = w gelatine from cows | w agar jelly = w agar
color source: w natural colors = w colors from plants | a dye free = w no dyes
    | w rainbow colors = w all colors of the rainbow
candy shape: w worm shape = w the form of worms | w heart shape = w the form of hearts
    | w ring shape = w the form of rings
wrap: a individually wrapped = t is wrapped one by one | w twist wrapper = w wrappers to twist
    | w pocket tin = w a tin for the pocket
bake: a hand baked = t was baked by hand | a twice baked = t was baked two times | a thin crisp = a thin and crispy
vitamins: w added iron = w extra iron | w vitamin d = w vitamins of the d type | w folic acid = w folate
oat cook: f microwave cooking = t cooks in the microwave | a steel cut = t was cut by steel
    | a overnight soaked = f overnight oats
syrup grade: w amber grade = w a light amber taste | w robust taste = w a strong dark taste
    | w delicate taste = w a very light taste
syrup bottle: w glass bottle = t comes in a glass bottle | w squeeze bottle = w a bottle to squeeze
    | w leaf bottle = w a bottle like a leaf
roast: a dark roast = t was roasted dark | a medium roast = t was roasted medium | a light roast = t was roasted lightly
caffeine: a caffeine free = w no caffeine; a decaffeinated | w half caffeine = w half the caffeine
    | w extra caffeine = a extra strong
coffee acid: a low acid = t is kind to my stomach | w bold flavor = a bold; w a strong taste
    | w smooth finish = a smooth
origin: w colombian origin = t comes from colombia | w ethiopian origin = t comes from ethiopia
    | w japanese origin = t comes from japan
    | w sumatran origin = t comes from sumatra
pod: w recyclable pods = w cups i can recycle | w compostable pods = w cups for the compost
    | w foil pods = w cups sealed in foil
tea leaf: m loose leaf = m whole leaves | m matcha powder = m matcha | m jasmine blossom = w jasmine blossoms
tea bag: w pyramid bags = w bags like pyramids | w string bags = w bags on a string | w plastic free = w no plastic
bubble: w strong bubbles = a very fizzy | w gentle bubbles = a lightly fizzy | w mineral water = w water from a spring
water extra: w zero calories = w no calories | w added electrolytes = w minerals for sports
    | w real juice = w a splash of juice
can: w slim cans = w thin cans | w glass bottles = w bottles of glass | w mini cans = w tiny cans
sauce make: a slow cooked = t was cooked for hours | w chunky tomato = w tomato pieces
    | a chef made = t was made by a chef
sauce jar: w mason jar = w a jar i can use again | w pouch pack = w a pouch | w easy lid = w a lid that opens easily
"""

BRANDS = """
Acorn & Oat, Bramblewick, Crispwell, Dapple Farm, Earthspoon, Four Kettles, Golden Acre, Hazelby, Island Pantry,
    Jolly Miller,
Kernel King, Little Larder, Meadowbrook Foods, Nuttley, Orchard Lane, Papa Tullio, Quince & Co, Rustic Roots,
    SnackHaven,
Tumbleweed Kitchen, Upland Mills, Vero Gusto, Wild Thicket, Yumbridge, Zesto, Café Oriel, NUTRIVA, FITMUNCH,
    Honeycroft, Saltmarsh
"""

FILLERS = """
Healthy Snack, Great Taste, Family Size, Office Snacks, Delicious, Gourmet, Kids Love It, Perfect for Sharing,
    Party Snack,
Fresh, on the Go, Vegan Friendly, Small Batch, Pantry Staple, Made in USA, Premium Quality, Care Package, Treat,
Wholesome, Tasty
"""

BENEFITS = """
tastes like the kind your grandmother made; ready whenever hunger strikes; good to share and hard to put down
; packed within a day for full freshness; goes well with fruit or a glass of something cold;
    the whole family agrees on this one
; keeps well in the cupboard; just open and enjoy; made with care in a small kitchen; full taste in every bite or sip
; a clever choice for busy weeks; we never cut corners on quality; made for people who read labels
"""

STORIES = """
Keep it in a dry and cool place and finish it soon after opening, which is rarely a problem.
Our recipe has not changed since the first market stall.
We pick, mix and pack in one building so that nothing loses time.
In very warm weather we ship with an ice pack at no cost.
Nutrition facts and allergens are printed on the back of each package.
If you do not like it, tell us and we pay it back.
Try it with yogurt, over a dessert or straight from the package.
The best before date is at least six months away when it leaves our house.
"""
