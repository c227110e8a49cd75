"""Words of the department electronics: types, attributes, brands and texts of sellers.

`tables.py` documents the formats.
"""

NAME = "electronics"
ROOT = "Electronics"

TYPES = """
wireless earbuds; plural; Audio > Headphones > In Ear > Wireless; color, style; 49
    sound, water, charge, play, ear, mic, control
over ear headphones; plural; Audio > Headphones > Over Ear > Wireless; color, style; 88
    sound, play, charge, ear pad, mic, fold up, control
bluetooth speaker; one; Audio > Speakers > Portable > Bluetooth; color, power; 43
    sound, water, play, charge, speaker link, carry
*soundbar; one; Audio > Speakers > Home > Bars; color, style; 134
    sound, speaker link, bass, tv port, mount, remote
phone case; one; Phones > Accessories > Cases > Basic; color, phone; 16
    case make, drop, case magnet, case stand, screen, case look
*phone charger; one; Phones > Accessories > Chargers > Wall; color, watt, pack; 23
    fast, port count, plug, safe, carry, led sign
charging cable; one; Phones > Accessories > Cables > Charging; color, cable length, pack; 13
    plug kind, cable cover, fast, safe, connector, carry
power bank; one; Phones > Accessories > Batteries > Portable; color, battery; 34
    fast, port count, safe, led sign, carry, solar
tablet case; one; Computers > Tablets > Accessories > Cases; color, tablet; 24
    case make, drop, case stand, pen, wake, strap hold
wireless mouse; one; Computers > Input > Mice > Wireless; color, style; 25
    mouse shape, click, mouse link, charge, dpi, light
mechanical keyboard; one; Computers > Input > Keyboards > Mechanical; color, key switch; 77
    light, key size, key cap, mouse link, key feature, rest
laptop stand; one; Computers > Accessories > Stands > Desk; color, style; 34
    stand make, stand move, cool, fold up, stand foot, stand load
smart watch; one; Wearables > Watches > Smart > Fitness; color, case size; 118
    water, watch health, play, screen, watch band, watch call
security camera; one; Cameras > Security > Home > Wireless; color, pack; 66
    cam video, cam night, cam power, cam store, cam voice, outdoors
hdmi cable; one; Video > Cables > Digital > HDMI; cable length, pack; 14
    cable video, cable cover, connector, cable speed, safe, cable use
"""

GROUPS = """
sound: w noise cancelling = t blocks out noise; t cancels noise | w stereo sound = w sound in stereo
    | w deep bass = w strong low tones
    | w spatial audio = w sound from all sides
water: w ipx7 waterproof = t can fall in water | a splash proof = t bears splashes | a dust proof = t keeps dust out
charge: w wireless charging = t charges without a cable | w usb charging = t charges over usb
    | w fast charging = t charges in minutes
play: w long battery = t lasts the whole day | w 24 hours = w twenty four hours of battery
    | w standby mode = t saves power by itself
ear: w ear hooks = t hooks over the ear | w foam tips = w tips of foam | w silicone wings = w little wings that hold
mic: w dual microphones = w two mics | w boom microphone = w a mic on an arm
    | w hidden microphone = w a mic i cannot see
control: w touch controls = t reacts to touch | w physical buttons = w real buttons
    | w voice assistant = t listens to my voice
ear pad: w protein leather = w soft fake leather pads | w velour pads = w velvet pads | w gel cushions = w pads with gel
fold up: a foldable frame = t folds up | w carry pouch = w a pouch to carry
    | w fixed frame = w a frame that does not fold
speaker link: w bluetooth 5 = w the newer bluetooth | w aux input = w a jack for aux
    | w multi pairing = t pairs with many
carry: a pocket sized = t fits in a pocket | w carry strap = w a strap to carry it | w travel pouch = w a bag for travel
bass: w wireless subwoofer = w a subwoofer without wires | w inner subwoofer = w a subwoofer inside
    | w bass boost = w a button for more bass
tv port: w hdmi arc = w the arc kind of hdmi | w optical input = w an optical port | w coaxial port = w a coax jack
mount: w mount kit = w parts to put it on the wall | w desk mount = t stands on the table
    | w screwless clips = w clips without screws
remote: w backlit remote = w a remote that glows | w app control = t is run from an app | w knob control = w a knob
case make: m soft silicone = m silicone | m hard plastic = m hard shell plastic | m woven fabric = m fabric
    | m carbon fiber = m carbon
drop: w military grade = t survives bad falls | w raised bezel = w a raised rim around the screen
    | w air corners = w corners with air inside
    | a ultra slim = a very thin
case magnet: w magnetic ring = w a ring of magnets | w card holder = w a place for cards
    | w wrist lanyard = w a loop for the wrist
case stand: w kick stand = w a little stand behind | w ring grip = w a ring to hold
    | w auto sleep = t sleeps when closed
screen: w tempered glass = w a glass protector | w privacy screen = w a screen others cannot read
    | w film protector = w a thin film
    | w amoled display = w an amoled
case look: a crystal clear = a transparent; t shows the phone | a glitter finish = a glittery
    | a frosted finish = a milky matte
fast: w quick charge = t charges quickly | w power delivery = w pd charging | w trickle charge = t charges gently
port count: w dual ports = w two ports | w four ports = w 4 ports | w single port = w just one port
plug: w foldable plug = w prongs that fold | w world adapter = w plugs for all countries
    | w extension cord = w a cord between
safe: w surge protection = t guards against surges | w overheat protection = t never gets too hot
    | w gold plated = w contacts in gold
    | w voltage guard = t guards against bad power
led sign: w led indicator = w a little light | w digital display = w numbers that show the charge
    | w torch light = w a torch
plug kind: w usb c = w a c type plug | w micro usb = w the small old plug
    | w lightning plug = w the plug of older iphones
cable cover: m nylon braided = w a braid of nylon | m soft rubber = m rubber | m flat ribbon = a flat
connector: w right angle = w a plug at a right angle | w magnetic tip = w a tip that snaps on
    | w straight plug = w a plug that goes straight
solar: w solar panel = t charges in the sun | w hand crank = w a crank for emergencies
    | w pass through = t charges while giving power
pen: w pencil holder = w a place for the pencil | w pen loop = w a loop for the pen | w pen charging = t charges the pen
wake: w auto wake = t wakes when opened | w magnet lock = t closes with magnets | w elastic band = w a band to close it
strap hold: w hand strap = w a strap for the hand | w shoulder strap = w a strap for the shoulder
    | w headrest strap = w a strap for the car seat
mouse shape: w ergonomic design = a ergonomic; a good for my wrist | w vertical grip = t is held upright
    | w flat body = a flat and thin
click: w silent click = a quiet; t makes no click noise | w side buttons = w buttons on the side
    | w tilt wheel = w a wheel that tilts
mouse link: w usb receiver = w a little usb dongle | w dual mode = w bluetooth and usb both
    | a plug play = a plug and play; t needs no driver
dpi: w 1600 dpi = w sixteen hundred dpi | w 3200 dpi = w thirty two hundred dpi | w adjustable dpi = w dpi i can change
light: w rgb lighting = w lights in many colors | w white glow = w white lights
    | w unlit body = w no lights at all
key size: a full size = w a number pad | a tenkeyless layout = w no number pad | a compact layout = a compact; a small
key cap: w pbt keycaps = w caps of pbt | w round keycaps = w round keys | w double shot = w letters that never wear off
key feature: a hot swappable = w switches i can change | w macro keys = w keys for macros
    | a spill resistant = t survives a spill
rest: w wrist rest = w something soft for the wrists | w tilt feet = w feet to tilt it
    | w volume knob = w a knob for the volume
stand make: m aluminum alloy = m aluminum | m stainless steel = m steel | m beech wood = m wood
stand move: w adjustable height = w a height i can change | w fixed angle = w one angle only
    | w rotating base = t rotates
cool: w cooling fan = w a fan | w vented top = w openings for the heat | w open back = t is open behind
stand foot: w silicone pads = w pads that do not scratch | w clamp base = w a clamp for the desk
    | w suction feet = w feet with suction
watch health: w heart rate = t measures my pulse | w sleep tracking = t tracks my sleep
    | w blood oxygen = t measures my oxygen
    | w step counter = t counts my steps
watch band: w silicone band = w a rubbery band | w steel band = w a band of steel | w leather band = w a band of leather
watch call: w call answering = t takes calls | w message alerts = t shows my messages
    | w onboard gps = t tracks my runs by satellite
cam video: w 1080p hd = w full hd video | w 2k sensor = w video in 2k | w 4k video = w video in 4k; a ultra hd
cam night: w color night = t sees color at night | w infrared night = t sees in the dark by infrared
    | w spot light = w a bright lamp
cam power: a battery powered = t runs on batteries | w solar charging = t charges from sunlight
    | w wired power = t plugs in
cam store: w cloud storage = t keeps videos online | w sd card = t takes a memory card
    | w hub storage = t saves to a hub
cam voice: w talk back = t lets me talk back | w motion alerts = t tells me when something moves
    | w loud siren = w a siren
outdoors: a weatherproof shell = t can hang outdoors | a indoor only = f inside the house
    | w sun cover = w a little roof
cable video: w 4k 60hz = w 4k at sixty | w 8k support = w 8k | w 1080p signal = w plain full hd
stand load: f large laptops = f big laptops | f small tablets = f tablets too | f two devices = f 2 devices at once
cable use: f game consoles = f gaming consoles; f playing games | f home theater = f a home cinema
    | f computer monitors = f monitors
cable speed: a high speed = a fast | w ethernet channel = w ethernet inside | w low latency = w no lag
"""

BRANDS = """
Amperion, Bitwell, Corvexa, Datrix, Echelona, Fluxon, Gridline, Heliotek, Ionwave, Juxta, Kilovar, Lumenix, Mobilune,
    Nanovo,
Orbitone, Pixora, QuantaLink, Resonix, Sonadore, Tekvale, Ultrion, Voltaro, WAVECREST, XENTRA, Yotta, Zephtron,
    JBRIX, VOXLEY,
MPOWERD8, TECKNIQ
"""

FILLERS = """
for Travel, for Home Office, for Work, Upgraded Version, Gift for Teens, 2022 New, Compatible with iPhone and Android,
Premium Sound, for Gaming, Lightweight, Reliable, for Kids, for Car, for PC Laptop, Easy Setup, Sleek, Portable, Pro,
Certified, for School
"""

BENEFITS = """
works right out of the box; covered by an eighteen month warranty; built for years of daily use
; small enough to forget and strong enough to trust; ready in less than a minute;
    keeps up with your day from start to finish
; tested by our engineers far beyond the norm; friendly support answers within hours; a clever upgrade for your set up
; clean design without a loose wire; does one thing and does it well; a gift for anyone who loves gadgets
; made to work with what you already have
"""

STORIES = """
In the box you find the device, a short guide and a card with our address.
Please check the model of your own device before ordering.
If it stops working within the warranty, we send a new one without asking for the old one.
Our lab opened each part and closed it ten thousand times.
Firmware updates are free and take about two minutes.
Keep away from fire and do not open the housing.
Some functions depend on the device that you connect.
We are a team of engineers who got tired of gadgets that last a year.
"""
